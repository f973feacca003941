"""AG2's accounting spans, which repeat, complete or sum up what other spans record."""

from __future__ import annotations

from typing import Any

from builders import observed_fields
from recordings import dotted

from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.session import Session, Usage
from spangrade.tracer.span import Span

CHAT = dotted(ag2__span__type="llm", gen_ai__operation__name="chat", gen_ai__response__model="gpt-4o")
USAGE = dotted(gen_ai__usage__input_tokens=20, gen_ai__usage__output_tokens=5)
RECORD = dotted(ag2__span__type="usage", gen_ai__response__model="gpt-4o") | USAGE


def agent(number: int, name: str, parent: int | None = None) -> Span:
    names = dotted(gen_ai__operation__name="invoke_agent", gen_ai__agent__name=name, ag2__span__type="agent")
    return span(number, f"invoke_agent {name}", names, parent)


def span(number: int, name: str, attributes: dict[str, Any], parent: int | None = 1) -> Span:
    return Span(
        "a" * 32,
        f"{number:016x}",
        None if parent is None else f"{parent:016x}",
        name,
        "INTERNAL",
        number,
        9,
        attributes=attributes,
        scope_name="opentelemetry.instrumentation.ag2",
    )


def derived(*spans: Span) -> Session:
    return build_session("s1", "trace", observe(spans, {}))


def test_the_record_of_a_model_call_repeats_it_and_that_of_a_compaction_is_a_call() -> None:
    model_call = RECORD | {"ag2.usage.kind": "model_call"}
    spans = [agent(1, "shop"), span(2, "chat", CHAT | USAGE), span(3, "record_usage", model_call)]
    assert derived(*spans).usage == Usage(1, 20, 5, None, None, True)
    compaction = span(4, "record_usage", RECORD | {"ag2.usage.kind": "compaction"})
    assert derived(*spans, compaction).usage == Usage(2, 40, 10, None, None, True)


def test_what_a_subtask_cost_is_known_only_if_its_agent_has_spans() -> None:
    subtask = span(4, "record_usage", RECORD | {"ag2.usage.kind": "subtask", "ag2.usage.label": "returns"})
    call = span(3, "chat", CHAT | USAGE, 2)
    assert derived(agent(1, "shop"), agent(2, "returns", 1), call, subtask).usage.input_tokens == 20
    lost = derived(agent(1, "shop"), agent(2, "other", 1), call, subtask)
    assert (lost.usage, lost.not_understood) == (Usage(), 1)


def test_an_agent_without_a_name_has_none() -> None:
    session = derived(agent(1, "unknown"), span(2, "chat", CHAT | USAGE))
    assert (session.agents, session.trajectory) == (None, ())


def test_usage_of_another_kind_is_a_model_call() -> None:
    spans = [
        span(2 + number, "usage", RECORD | {"ag2.usage.kind": kind})
        for number, kind in enumerate(("model_call", "subtask", "unheard_of", "a"))
    ]
    assert [found.kind for found in observed_fields(spans)] == ["other", "other", "llm", "llm"]
