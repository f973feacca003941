"""Pipecat's spans, as its public source writes them; none were recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import observed_fields
from recordings import dotted

from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.session import Usage
from spangrade.tracer.span import Span

CALL = dotted(gen_ai__operation__name="chat", gen_ai__request__model="gpt-4o", output="Hello.", stream=True)
CALL |= dotted(gen_ai__usage__input_tokens=20, gen_ai__usage__output_tokens=5)
STT = dotted(gen_ai__operation__name="stt", gen_ai__request__model="nova", transcript="Hi")
TOOL = dotted(tool__function_name="cart", tool__call_id="c1", tool__arguments='{"id": 1}', tool__result="[2]")


def span(number: int, parent: int | None, name: str, attributes: dict[str, Any]) -> Span:
    return Span(
        "a" * 32,
        f"{number:016x}",
        None if parent is None else f"{parent:016x}",
        name,
        "INTERNAL",
        number,
        100,
        attributes=attributes,
        scope_name="pipecat.turn" if name in {"conversation", "turn"} else "pipecat",
    )


def test_each_turn_of_a_conversation_is_one_with_its_calls_and_tools() -> None:
    spans = [span(1, None, "conversation", {"conversation.id": "c-1", "conversation.type": "voice"})]
    for turn, user in enumerate(["Hi", "And now?"]):
        first = 10 * turn + 2
        said = json.dumps([{"role": "system", "content": "Help."}, {"role": "user", "content": user}])
        spans += [
            span(first, 1, "turn", {"turn.number": turn + 1, "conversation.id": "c-1"}),
            span(first + 1, first, "stt", STT),
            span(first + 2, first, "llm", CALL | {"input": said}),
            span(first + 3, first, "function_call", TOOL),
        ]
    observations = observe(spans, {})
    assert {o.session.conversation_id for o in observations if o.session.conversation_id} == {"c-1"}
    session = build_session("c-1", "conversation", observations)
    assert [(t.user_input, t.final_response) for t in session.turns] == [
        ("Hi", "Hello."),
        ("And now?", "Hello."),
    ]
    assert session.usage == Usage(2, 40, 10, None, None, True)
    assert [(t.turn, t.tool_name, t.input_arguments, t.output) for t in session.tool_interactions] == [
        (1, "cart", {"id": 1}, [2]),
        (2, "cart", {"id": 1}, [2]),
    ]


SYSTEM = {"role": "system", "content": "Help."}
HI, CART = ({"role": "user", "content": text} for text in ("Hi", "Cart?"))
ASKED = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "cart", "arguments": "{}"}}]}
FOUND = {"role": "tool", "tool_call_id": "c1", "content": "[2]"}
HELLO = {"role": "assistant", "content": "Hello."}


@pytest.mark.parametrize(
    ("requests", "turns"),
    [
        ([[[SYSTEM, HI]], [[SYSTEM, HI, ASKED, FOUND]]], [("Hi", "Hello.")]),  # a pause while a tool runs
        ([[[SYSTEM, HI], [SYSTEM, HI, HELLO, CART]]], [("Hi", "Hello."), ("Cart?", "Hello.")]),
        ([[[HI]], [[HI, HELLO, HI]]], [("Hi", "Hello.")] * 2),  # said twice
        ([[[HI]], [[CART]]], [("Hi", "Hello."), ("Cart?", "Hello.")]),
    ],
)
def test_one_utterance_of_the_user_is_one_turn(
    requests: list[list[list[dict[str, Any]]]], turns: list[tuple[str, str]]
) -> None:
    spans = [span(1, None, "conversation", {"conversation.id": "c-1"})]
    for number, calls in enumerate(requests, 1):
        first = 10 * number
        spans.append(span(first, 1, "turn", {"turn.number": number})._replace(end_ns=first + 9))
        for at, messages in enumerate(calls, 1):
            call = span(first + 2 * at, first, "llm", CALL | {"input": json.dumps(messages)})
            spans.append(call._replace(end_ns=first + 2 * at + 1))
    session = build_session("c-1", "conversation", observe(spans, {}))
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == turns


def test_a_speech_to_speech_service_is_not_understood() -> None:
    (observation,) = observed_fields([span(1, None, "llm_response", dotted(gen_ai__usage__input_tokens=5))])
    assert (observation.kind, observation.not_understood) == ("other", "pipecat")
