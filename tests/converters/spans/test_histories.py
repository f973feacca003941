"""Message lists that repeat the one before are read as if each were read alone, with less work."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from work import lines_executed

from spangrade.converters.spans import histories
from spangrade.converters.spans.histories import conversation_digests, forget_histories, history_of
from spangrade.converters.spans.messages import Message, is_of_user, message_of
from spangrade.converters.spans.registry import observe
from spangrade.tracer.span import Span

LONG = {"role": "user", "parts": [{"type": "text", "content": "Where is my order? " * 300}]}
ANSWER = {"role": "assistant", "parts": [{"type": "text", "content": "Soon."}]}
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


def messages_in(text: str, conversation: str | None) -> list[Message | None] | None:
    history = history_of(text, conversation)
    return None if history is None else history.messages


@given(
    st.lists(st.lists(ANY_MESSAGE), min_size=1),
    st.booleans(),
    st.sampled_from(["", " ", "\n"]),
    st.sampled_from(["c", None]),
)
def test_every_list_has_the_messages_of_its_own_text_the_users_among_them_and_its_own_digests(
    additions: list[list[Any]], spaced: bool, end: str, conversation: str | None
) -> None:
    forget_histories()
    listed: list[Any] = [LONG]
    for added in additions:
        listed += added
        text = (json.dumps(listed) if spaced else orjson.dumps(listed).decode()) + end
        read = list(map(message_of, listed))
        assert messages_in(text, conversation) == read
        history = history_of(text, conversation)  # the same list again
        assert history is not None
        assert history.users == [sum(map(is_of_user, read[:length])) for length in range(len(read) + 1)]
        assert history.digests([ANSWER]) == conversation_digests(listed, [ANSWER])


def test_a_list_that_does_not_go_on_where_the_last_one_ended_is_read_anew() -> None:
    forget_histories()
    whole = json.dumps([LONG, {"role": "user", "content": "Hi."}])
    messages = messages_in(whole, "c")
    assert messages_in(f"{whole[:-1]},]", "c") is None
    assert messages_in(f"{whole[:-1]} {{}}]", "c") is None
    assert messages_in(f"{whole}, {{}}]", "c") is None
    assert messages_in(json.dumps([LONG]), "c") == (messages or [])[:1]
    assert messages_in(whole, "c") == messages


def test_the_text_of_remembered_lists_is_bounded() -> None:
    forget_histories()
    text = json.dumps([{"role": "user", "content": "x" * 1_000_000}])
    for number in range(20):
        assert messages_in(text, f"c{number}") is not None
    remembered = histories._memory.histories.values()
    assert [conversation for (conversation, _), _ in remembered] == [f"c{n}" for n in range(13, 20)]
    assert sum(len(history.text) for _, history in remembered) == histories._memory.characters


def test_the_number_of_remembered_lists_that_begin_alike_is_bounded() -> None:
    forget_histories()
    for number in range(300):
        text = json.dumps([LONG, {"role": "user", "content": str(number)}])
        assert history_of(text, None) is not None
    assert [len(numbers) for numbers in histories._memory.alike.values()] == [256]
    assert len(histories._memory.histories) == 256


def test_of_conversations_at_once_without_an_id_each_goes_on_where_it_was() -> None:
    asked = [[LONG, {"role": "user", "content": f"Hi, I am {number}."}] for number in range(100)]
    spans = [
        Span(
            f"{number}.{turn}",
            "1",
            None,
            "chat",
            "CLIENT",
            turn,
            turn + 1,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": json.dumps(
                    [*begun, *[ANSWER, {"role": "user", "content": "?"}] * turn]
                ),
                "gen_ai.output.messages": json.dumps([ANSWER]),
            },
        )
        for turn in range(4)
        for number, begun in enumerate(asked)
    ]
    together = observe(spans, {})
    assert together == [one for span in spans for one in observe([span], {})]
    alone = lines_executed(lambda: [observe([span], {}) for span in spans])
    assert lines_executed(lambda: observe(spans, {})) < alone


@pytest.mark.exhaustive
def test_reading_a_turn_forgets_its_messages_and_takes_less_work_than_reading_each_call_alone() -> None:
    spans = rounds(100)
    together = observe(spans, {})
    assert together == [one for span in spans for one in observe([span], {})]
    assert histories._memory.histories == {}
    alone = lines_executed(lambda: [observe([span], {}) for span in spans])
    assert lines_executed(lambda: observe(spans, {})) < alone / 3
