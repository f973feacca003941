"""What messages tell, whoever shaped them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spangrade.converters.spans.messages import (
    MOST_DEPTH,
    Message,
    MessageExchange,
    answer,
    code_executions,
    message_of,
    messages_in,
    read_exchange,
    text_in,
)
from spangrade.converters.spans.observation import MessageCall, ToolResult

RAN = {"executable_code": {"code": "print(1)", "language": "PYTHON"}}
RESULT = {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}}
INTERPRETER = {"type": "server_tool_call", "name": "code", "server_tool_call": {"type": "code_interpreter"}}
SEARCH = {"type": "server_tool_call", "name": "search", "server_tool_call": {"type": "web_search"}}
UNSET = {"text": "1", "executable_code": {}, "code_execution_result": {}}


@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        ({"role": "model", "parts": [{"text": "so"}, RAN, RESULT, RAN, RESULT]}, 2),
        ([{"role": "assistant", "parts": [INTERPRETER, SEARCH]}], 1),
        ([{"role": "assistant", "content": [{"type": "server_tool_use", "name": "code_execution"}]}], 1),
        ({"parts": [UNSET, {"type": ["server_tool_call"], "name": {}}, "text", None]}, 0),
        ({"content": "print(1)"}, 0),
        (None, 0),
    ],
)
def test_code_runs_are_counted_in_geminis_parts_and_in_those_of_the_conventions(
    answer: Any, runs: int
) -> None:
    assert code_executions(answer) == runs


@pytest.mark.parametrize("place", range(1, 7))
def test_a_system_message_after_the_users_says_nothing_of_the_exchange(place: int) -> None:
    def requested(call_id: str) -> dict[str, Any]:
        function = {"name": "find", "arguments": "{}"}
        return {"role": "assistant", "tool_calls": [{"id": call_id, "function": function}]}

    def result(call_id: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": call_id, "content": call_id}

    history = [{"role": "user", "content": "hi"}, requested("1"), requested("2"), result("1"), result("2")]
    history.insert(place, {"role": "system", "content": "be kind"})
    assert read_exchange(json.loads(json.dumps(history)), None) == MessageExchange(
        user_input="hi",
        continues=True,
        tool_results=(ToolResult(None, "1", "1"), ToolResult(None, "2", "2")),
        repeated_calls=(MessageCall("find", "1", "{}"), MessageCall("find", "2", "{}")),
        user_messages=1,
    )


CALL = MessageCall("find", "c1", '{"q":"a"}')
FOUND = ToolResult("find", "c1", '{"n":1}')


@pytest.mark.parametrize(
    ("written", "calls", "messages"),
    [
        ("ho", None, [Message("assistant", "ho")]),
        (
            "ho",
            '[{"toolCallId":"c1","toolName":"find","input":{"q":"a"}}]',
            [Message("assistant", "ho", (CALL,))],
        ),
        (
            None,
            [{"toolCallId": "c1", "toolName": "find", "args": {"q": "a"}}],
            [Message("assistant", None, (CALL,))],
        ),
        ("", [], []),
    ],
)
def test_an_answer_of_the_ai_sdk_is_a_text_and_calls(
    written: Any, calls: Any, messages: list[Message]
) -> None:
    assert list(map(message_of, answer(written, calls))) == messages


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (
            {"type": "tool-call", "toolCallId": "c1", "toolName": "find", "input": {"q": "a"}},
            {
                "type": "tool-result",
                "toolCallId": "c1",
                "toolName": "find",
                "output": {"type": "json", "value": {"n": 1}},
            },
        ),
        (
            {"toolRequest": {"name": "find", "ref": "c1", "input": {"q": "a"}}},
            {"toolResponse": {"name": "find", "ref": "c1", "output": {"n": 1}}},
        ),
        (
            {"tool_call": {"tool_name": "find", "id": "c1", "arguments": {"q": "a"}}},
            {"tool_call_result": {"result": '{"n": 1}', "origin": {"tool_name": "find", "id": "c1"}}},
        ),
        (
            {"functionCall": {"name": "find", "id": "c1", "args": {"q": "a"}}},
            {"functionResponse": {"name": "find", "id": "c1", "response": {"n": 1}}},
        ),
    ],
)
def test_a_call_and_its_result_are_parts_of_messages_in_each_frameworks_form(
    call: dict[str, Any], result: dict[str, Any]
) -> None:
    asked, answered = ({"role": "model", "content": [call]}, {"role": "tool", "content": [result]})
    assert message_of(asked) == Message("assistant", None, (CALL,))
    assert message_of(answered) == Message("tool", None, (), (FOUND,))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("ho", "ho"),
        (["h", {"type": "text", "text": "o"}, {"type": "image_url"}, 3], "ho"),
        ([{"type": "image_url"}], None),
    ],
)
def test_the_text_of_a_message_of_langchain_is_in_its_parts(content: Any, text: str | None) -> None:
    state = {"messages": [{"type": "human", "content": "hi"}, {"type": "ai", "content": content}]}
    assert text_in(state, "assistant") == text


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["<session_context>\nThis is a CLI.\n</session_context>", "Where is A1?"], "Where is A1?"),
        (["<system-reminder>Be brief.</system-reminder>\n", "Where is A1?"], "Where is A1?"),
        (["<environment_context>cwd</environment_context>"], None),
        (["<user_instructions> is a tag?"], "<user_instructions> is a tag?"),
        (["Why <system-reminder>this</system-reminder>?"], "Why <system-reminder>this</system-reminder>?"),
        (["<b>Where</b>"], "<b>Where</b>"),
    ],
)
def test_a_block_of_context_before_the_users_text_is_not_the_users(texts: list[str], message: str) -> None:
    parts = [{"type": "text", "content": text} for text in texts]
    assert read_exchange([{"role": "user", "parts": parts}], []).user_input == message


SOIL = {"role": "user", "content": "Any soil?"}
FORMS: list[Any] = [
    SOIL,
    {"role": "user", "parts": [{"text": "Any soil?"}]},
    {"type": "human", "content": "Any soil?"},
    {"type": "human", "data": {"content": "Any soil?"}},
    {"lc": 1, "id": ["langchain", "messages", "HumanMessage"], "kwargs": {"content": "Any soil?"}},
    ["user", "Any soil?"],
    {"role": "user", "content": {"parts": [{"text": "Any soil?"}]}},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Any soil?"}]},
]


def around(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"state": value}
    return value


@pytest.mark.parametrize("form", FORMS)
def test_a_message_is_read_in_each_form_and_place(form: Any) -> None:
    places: list[Any] = [
        {"messages": [form], "model": "m"},
        {"kwargs": {"messages": [form]}},
        {"input": [form]},
        json.dumps({"request": {"messages": [form]}}),
        {"state": {"new_message": form}},
    ]
    for value in places:
        found = [message_of(message) for message in messages_in(value, "user", texts=True)]
        assert [(m.role, m.text) for m in found if m] == [("user", "Any soil?")]
        assert text_in(value, "user") == "Any soil?"


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("Any soil?", ["Any soil?"]),
        ({"input": "Any soil?"}, ["Any soil?"]),
        ({"prompt": "Any soil?", "temperature": 0}, ["Any soil?"]),
        ({"draft": {"messages": [SOIL]}}, []),
        ({"messages": ["Any soil?"]}, []),
        ({"kwargs": "Any soil?"}, []),
        ({"role": "desk", "goal": "Sell."}, []),
        ({"type": "function", "function": {"name": "find", "description": "Any soil?"}}, []),
        (around({"messages": [SOIL]}, MOST_DEPTH - 3), ["Any soil?"]),
        (around({"messages": [SOIL]}, MOST_DEPTH - 2), []),
    ],
)
def test_a_text_is_a_message_only_in_the_place_of_one(value: Any, texts: list[str]) -> None:
    found = [message_of(message) for message in messages_in(value, "user", texts=True)]
    assert [message.text for message in found if message] == texts


@pytest.mark.parametrize(
    "response",
    [
        {"choices": [{"message": {"role": "assistant", "content": "Yes."}}], "usage": {}},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}}]},
        {"output": {"message": {"role": "assistant", "content": [{"text": "Yes."}]}}},
        {
            "output": [
                {"type": "reasoning", "summary": []},
                {"type": "message", "content": [{"text": "Yes."}]},
            ]
        },
        {"generations": [[{"text": "Yes.", "message": {"type": "ai", "content": "Yes."}}]]},
        {"type": "message", "content": [{"type": "text", "text": "Yes."}]},
        {"response": "Yes.", "done": True},
        "Yes.",
    ],
)
def test_a_response_of_each_provider_is_read(response: Any) -> None:
    found = messages_in(response, "assistant", texts=True)
    assert read_exchange(None, found).response == "Yes."


def test_a_tool_message_of_langchain_answers_the_call_whose_id_it_has_not_its_own_id() -> None:
    message = {
        "role": "tool",
        "content": "too much",
        "tool_call_id": "c2",
        "id": "m7",
        "status": "error",
    }
    (result,) = message_of(message).tool_results  # type: ignore[union-attr]
    assert result == ToolResult(None, "c2", '"too much"', True)


@pytest.mark.parametrize(
    ("part", "response"),
    [
        ({"type": "refusal", "refusal": "No."}, "No."),
        ({"type": "refusal", "content": "No."}, "No."),
        ({"type": "audio", "transcript": "Yes.", "content": "UklG"}, "Yes."),
        ({"type": "audio", "content": "UklG"}, None),
        ({"type": "blob", "modality": "image", "content": "iVBO"}, None),
        ({"type": "reasoning", "content": "Well."}, None),
    ],
)
def test_a_part_of_a_models_message_is_a_text_if_a_person_reads_or_hears_it(part, response):
    assert read_exchange(None, [{"role": "assistant", "parts": [part]}]).response == response
