"""What a guardrail or an evaluator does is no reply; its calls cost, and its agent is an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recordings import sessions

from spangrade.evaluator.session import Session
from spangrade.tracer.span import Span

# How each stack says that a span is a guardrail's or an evaluator's: its attributes, and its name.
CHECKS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"openinference.span.kind": "GUARDRAIL"}, "secrets"),
    ({"openinference.span.kind": "EVALUATOR"}, "helpful"),
    ({"langfuse.observation.type": "guardrail"}, "secrets"),
    ({"langfuse.observation.type": "evaluator"}, "helpful"),
    ({"mlflow.spanType": '"GUARDRAIL"'}, "secrets"),
    ({"gen_ai.operation.name": "guardrail_check"}, "guardrail_check secrets"),
    ({"gen_ai.operation.name": "apply_guardrail"}, "apply_guardrail secrets"),
    ({"gen_ai.operation.name": "evaluate"}, "evaluate helpful"),
    ({"traceloop.span.kind": "guardrail"}, "secrets.guardrail"),
    ({"acme.span.kind": "guardrail", "acme.input": "Hi"}, "secrets"),
    ({"acme.observation_type": "SpanKind.EVALUATOR"}, "helpful"),
    ({}, "Guardrail: secrets"),
    ({"voltagent.x": 1}, "input guardrails"),
)


def spans_of(
    check: tuple[dict[str, Any], str], at: int, *, apart: bool = False, asked: bool = True
) -> list[Span]:
    """One turn of an agent with a check that begins at a time, in a trace of its own if it is `apart`."""

    def span(number: int, parent: int | None, start: int, end: int, name: str, **fields: Any) -> Span:
        trace = "b" * 32 if apart and number >= 10 else "a" * 32
        above = None if parent is None or (apart and number == 10) else f"{parent:016x}"
        given = {"session.id": "s1", **{key.replace("__", "."): value for key, value in fields.items()}}
        return Span(trace, f"{number:016x}", above, name, "INTERNAL", start, end, attributes=given)

    def call(number: int, parent: int, start: int, said: str | None, answer: str) -> Span:
        attributes: dict[str, Any] = {"llm.model_name": "gpt-4.1", "llm.token_count.prompt": 10}
        attributes |= {"llm.token_count.completion": 1, "llm.output_messages.0.message.role": "assistant"}
        attributes["llm.output_messages.0.message.content"] = answer
        if said:
            attributes |= {"llm.input_messages.0.message.role": "user"}
            attributes["llm.input_messages.0.message.content"] = said
        return span(number, parent, start, start + 5, "chat", openinference__span__kind="LLM", **attributes)

    agent = {"openinference__span__kind": "AGENT"}
    return [
        span(1, None, 0, 1000, "desk", agent__name="desk", **agent),
        call(2, 1, 300, "Where is A-17?" if asked else None, "On its way."),
        span(10, 1, at, at + 100, check[1], **check[0]),
        span(11, 10, at + 1, at + 90, "guard", agent__name="guard", **agent),
        call(12, 11, at + 10, "Check: Where is A-17?" if asked else "Where is A-17?", '{"bad": false}'),
    ]


def derived(spans: list[Span], db: Path) -> Session:
    (session,) = sessions(spans, db)
    return session


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("at", [100, 250, 600, 2000])
@pytest.mark.parametrize("apart", [False, True])
def test_a_check_is_no_reply_and_no_turn(
    check: tuple[dict[str, Any], str], at: int, apart: bool, tmp_path: Path
) -> None:
    session = derived(spans_of(check, at, apart=apart), tmp_path / "s.duckdb")
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == [
        ("Where is A-17?", "On its way.")
    ]
    assert set(session.agents or ()) == {"desk", "guard"}
    assert (session.usage.llm_calls, session.usage.input_tokens) == (2, 20)


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_text_that_a_check_gets_is_the_users_where_nothing_else_records_it(
    check: tuple[dict[str, Any], str], tmp_path: Path
) -> None:
    without = derived(spans_of(check, 100, asked=False), tmp_path / "s.duckdb")
    assert [(turn.user_input, turn.final_response) for turn in without.turns] == [
        ("Where is A-17?", "On its way.")
    ]
    stopped = [span for span in spans_of(check, 100) if span.span_id != f"{2:016x}"]
    (turn,) = derived(stopped, tmp_path / "t.duckdb").turns
    assert (turn.user_input, turn.final_response) == ("Check: Where is A-17?", None)


def test_an_agent_that_evaluates_is_one_of_the_agents_own(tmp_path: Path) -> None:
    spans = spans_of(({"openinference.span.kind": "AGENT", "agent.name": "evaluator"}, "evaluator"), 600)
    (turn,) = derived(spans, tmp_path / "s.duckdb").turns
    assert turn.final_response == '{"bad": false}'
