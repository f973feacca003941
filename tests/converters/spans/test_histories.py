"""Message lists that repeat the one before are read as if each were read alone, with less work."""

from __future__ import annotations

import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from work import lines_executed

from spangrade.converters.spans import histories
from spangrade.converters.spans.histories import forget_messages, messages_in
from spangrade.converters.spans.messages import message_of
from spangrade.converters.spans.registry import observe
from spangrade.tracer.span import Span

LONG = {"role": "user", "parts": [{"type": "text", "content": "Where is my order? " * 300}]}
ANY_MESSAGE = st.sampled_from(
    [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "a", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"é": 1}}]},
        {"role": "user", "content": "And now]?"},
        {"role": "system", "content": "Be kind, [always"},
        "not a message",
        None,
    ]
)


def rounds(number: int) -> list[Span]:
    """Return the model calls of one turn, each of which repeats the messages before it."""
    history: list[Any] = [LONG]
    spans = []
    for i in range(number):
        call = {"type": "tool_call", "id": f"c{i}", "name": "find", "arguments": {"n": i}}
        answer = {"role": "assistant", "parts": [call]}
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": "c",
            "gen_ai.input.messages": json.dumps(history),
            "gen_ai.output.messages": json.dumps([answer]),
        }
        spans.append(Span("t", str(i), None, "chat", "CLIENT", i, i + 1, attributes=attributes))
        result = {"type": "tool_call_response", "id": f"c{i}", "response": i}
        history += [answer, {"role": "tool", "parts": [result]}]
    return spans


@given(st.lists(st.lists(ANY_MESSAGE), min_size=1), st.booleans(), st.sampled_from(["", " ", "\n"]))
def test_every_list_has_the_messages_of_its_own_text(
    additions: list[list[Any]], spaced: bool, end: str
) -> None:
    forget_messages()
    listed: list[Any] = [LONG]
    for added in additions:
        listed += added
        text = (json.dumps(listed) if spaced else orjson.dumps(listed).decode()) + end
        assert messages_in(text, "c") == list(map(message_of, listed))


def test_a_list_that_does_not_go_on_where_the_last_one_ended_is_read_anew() -> None:
    forget_messages()
    whole = json.dumps([LONG, {"role": "user", "content": "Hi."}])
    messages = messages_in(whole, "c")
    assert messages_in(f"{whole[:-1]},]", "c") is None
    assert messages_in(f"{whole[:-1]} {{}}]", "c") is None
    assert messages_in(f"{whole}, {{}}]", "c") is None
    assert messages_in(json.dumps([LONG]), "c") == (messages or [])[:1]
    assert messages_in(whole, "c") == messages


def test_the_text_of_remembered_lists_is_bounded() -> None:
    forget_messages()
    text = json.dumps([{"role": "user", "content": "x" * 1_000_000}])
    for number in range(20):
        assert messages_in(text, f"c{number}") is not None
    remembered = histories._memory.lists
    assert [conversation for conversation, _ in remembered] == [f"c{number}" for number in range(13, 20)]
    assert sum(len(one.text) for one in remembered.values()) == histories._memory.characters


def test_reading_a_turn_forgets_its_messages_and_takes_less_work_than_reading_each_call_alone() -> None:
    spans = rounds(100)
    together = observe(spans, {})
    assert together == [one for span in spans for one in observe([span], {})]
    assert histories._memory.lists == {}
    alone = lines_executed(lambda: [observe([span], {}) for span in spans])
    assert lines_executed(lambda: observe(spans, {})) < alone / 3
