"""Spring AI's spans, as its documentation describes them; none were recorded."""

from __future__ import annotations

from typing import Any

from recordings import dotted

from spangrade.converters.spans.observation import kind_of
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.session import Usage
from spangrade.tracer.span import Span

FRAMEWORK = dotted(gen_ai__operation__name="framework", gen_ai__system="spring_ai")
CLIENT = FRAMEWORK | dotted(spring__ai__kind="chat_client", spring__ai__chat__client__conversation__id="c-1")
MODEL = dotted(gen_ai__operation__name="chat", gen_ai__system="openai", gen_ai__response__model="gpt-4o")
MODEL |= dotted(gen_ai__usage__input_tokens=20, gen_ai__usage__output_tokens=5)
TOOL = FRAMEWORK | dotted(spring__ai__kind="tool_call", spring__ai__tool__definition__name="cart")
CONTENT = dotted(spring__ai__tool__call__arguments='{"id": 1}', spring__ai__tool__call__result="[2]")


def span(number: int, name: str, attributes: dict[str, Any]) -> Span:
    parent = None if number == 1 else f"{1:016x}"
    scope = "org.springframework.boot"
    times = (number, 9)
    return Span(
        "a" * 32,
        f"{number:016x}",
        parent,
        name,
        "INTERNAL",
        *times,
        attributes=attributes,
        scope_name=scope,
    )


def test_a_chat_client_is_a_turn_with_its_calls_of_models_and_tools() -> None:
    advisor = FRAMEWORK | {"spring.ai.kind": "advisor"}
    observations = observe(
        [
            span(1, "spring_ai chat_client", CLIENT),
            span(2, "call_advisor", advisor),
            span(3, "chat gpt-4o", MODEL),
            span(4, "tool_call cart", TOOL | CONTENT),
        ],
        {},
    )
    assert list(map(kind_of, observations)) == ["workflow", "other", "llm", "tool"]
    assert observations[0].session.conversation_id == "c-1"
    session = build_session("c-1", "conversation", observations)
    assert (len(session.turns), session.usage) == (1, Usage(1, 20, 5, None, None, True))
    (call,) = session.tool_interactions
    assert (call.tool_name, call.input_arguments, call.output, call.ok) == ("cart", {"id": 1}, [2], True)
