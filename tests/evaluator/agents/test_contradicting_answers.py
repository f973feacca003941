"""An answer that lists calls under other words than `tool_calls` is not one without calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade.evaluator.agents.adapters.reading import calls_in, read_answer

WORDS = (
    "toolCalls",
    "tool_uses",
    "tools",
    "calls",
    "function_call",
    "invocations",
    "called_tools",
    "tool_log",
)
CALLS: dict[str, Any] = {
    "name alone": {"name": "rm"},
    "arguments": {"name": "rm", "arguments": {}},
    "text of arguments": {"name": "rm", "args": "{}"},
    "input": {"type": "tool_use", "name": "rm", "input": {"path": "/"}},
    "function": {"id": "1", "type": "function", "function": {"name": "rm", "arguments": "{}"}},
    "LangChain's": {"tool": "rm", "tool_input": "/"},
    "described": {"name": "rm", "description": "removes", "arguments": {"path": "/"}},
    "its name": "rm",
}
OFFERED: dict[str, Any] = {
    "Chat's": {"type": "function", "function": {"name": "rm", "parameters": {"type": "object"}}},
    "Responses'": {
        "type": "function",
        "name": "rm",
        "parameters": {"properties": {"name": {}}},
        "strict": True,
    },
    "Anthropic's": {"name": "rm", "input_schema": {"type": "object"}},
    "described": {"name": "rm", "description": "removes"},
    "built in": {"type": "web_search"},
    "a server's": {"type": "mcp", "server_label": "files", "allowed_tools": ["rm"]},
}
# What else answers have: none of it is a call.
OTHERS: dict[str, Any] = {
    "usage": {"input_tokens": 3, "tool_use_prompt_tokens": 2},
    "tool_choice": {"type": "function", "function": {"name": "rm"}},
    "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["rm"]}},
    "parallel_tool_calls": True,
    "max_tool_calls": 4,
    "available_tools": ["rm"],
    "toolCalls": [],
    "actions": [{"label": "Yes", "url": "/yes"}],
    "citations": [{"name": "terms", "text": "…"}],
    "customer": {"name": "Ada", "address": {"city": "London"}},
    "model": "m",
    "messages": [{"role": "assistant", "content": "Done.", "tool_calls": []}],
}


def answered(**more: Any) -> tuple[list[Any] | None, tuple[str, ...]]:
    reply = read_answer({"text": "Done.", "tool_calls": [], **more})
    return reply.tool_calls, tuple(call.name for call in reply.disputed)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_a_list_of_calls_has_is_one_under_any_word(call: Any) -> None:
    for word in WORDS:
        assert answered(**{word: [call]}) == (None, ("rm",)), word


@pytest.mark.parametrize("call", [one for one in CALLS if one not in ("name alone", "its name")])
def test_an_object_with_a_name_and_an_input_is_a_call_under_no_word_and_at_any_depth(call: str) -> None:
    for value in ([CALLS[call]], CALLS[call], {"steps": [{"did": CALLS[call]}]}):
        assert answered(steps=value) == (None, ("rm",))


@pytest.mark.parametrize("offered", OFFERED.values(), ids=OFFERED)
def test_what_is_on_offer_is_no_call(offered: Any) -> None:
    for word in ("tools", "functions", "toolCalls"):
        assert answered(**{word: [offered]}) == ([], ())


def test_other_parts_of_answers_are_no_calls() -> None:
    assert answered(**OTHERS) == ([], ())


def test_a_call_that_is_in_tool_calls_too_is_known() -> None:
    answer = {"text": "Done.", "tool_calls": [{"name": "rm"}], "messages": [{"tool_calls": [{"name": "rm"}]}]}
    reply = read_answer(answer)
    assert (reply.disputed, [call.name for call in reply.tool_calls or ()]) == ((), ["rm"])


def test_the_same_tool_with_other_arguments_is_another_call() -> None:
    listed = [{"name": "rm", "arguments": {"path": "/a"}}]
    for other, disputed in (("/a", 0), ("/b", 1)):
        steps = [{"tool": "rm", "tool_input": {"path": other}}]
        reply = read_answer({"text": "Done.", "tool_calls": listed, "steps": steps})
        assert len(reply.disputed) == disputed


def test_a_call_without_a_name_is_one() -> None:
    assert answered(toolCalls=[{"id": "1"}]) == (None, ("",))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, st.sampled_from(sorted(WORDS)))
def test_a_call_is_seen_beside_whatever_else_an_answer_has(beside: Any, word: str) -> None:
    found = list(calls_in({"beside": beside, word: [{"name": "rm", "arguments": {}}]}))
    assert "rm" in [call.name for call in found]
