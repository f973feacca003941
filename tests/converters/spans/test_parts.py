"""What a part of a model's message is, by the words of its type, and what a mark beside a result says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade.converters.spans.messages import Message, message_of, read_exchange
from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.converters.spans.outcomes import FAILURE_WORDS, FAILURES, SUCCESS_WORDS, mark_of
from spangrade.converters.spans.parts import CodeRun, Unread, read_part

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=8)
SEPARATED = ("{}_call", "{}-call", "{}_use", "{}.call", "{}Call", "{}Use")
HARMLESS = (
    *("refusal", "reasoning", "thinking", "redacted_thinking", "summary_text", "image", "image_url", "audio"),
    *("input_audio", "video", "file", "input_file", "blob", "uri", "document", "source-url", "citations"),
    *("source-document", "step-start", "data-weather", "compaction", "cache_point", "reasoning_text"),
)
NO_CALLS = (
    *("mcp_list_tools", "tool-approval-request", "tool-approval-response", "function_approval_request"),
    *("function_approval_response", "mcp_approval_request", "mcp_approval_response", "tool_definitions"),
)
CALL = {"id": "c1", "name": "pay", "input": {"a": 1}, "arguments": {"a": 1}, "content": "x"}


@given(
    WORDS.filter(lambda word: word not in {"tool", "function", "custom", "mcp", "server", "approval", "data"})
)
@pytest.mark.parametrize("form", SEPARATED)
def test_a_type_that_ends_in_call_or_use_is_a_call_of_the_parts_name_else_of_the_types(
    form: str, word: str
) -> None:
    type_ = form.format(word)
    named = read_part({"type": type_, "id": "c1", "name": "pay", "input": {"a": 1}})
    assert isinstance(named, MessageCall)
    assert named[:3] == ("pay", "c1", '{"a":1}')
    wrapped = read_part({"type": type_, "id": "c1", type_: {"name": "pay"}})
    assert isinstance(wrapped, MessageCall)
    assert wrapped.name == "pay"
    unnamed = read_part({"type": type_, "id": "c1"})
    assert isinstance(unnamed, MessageCall)
    assert unnamed.name == (word if type_.lower().endswith("call") else type_)


@given(st.text("abcdefghij", min_size=1, max_size=9), st.text("klmnopqrs", min_size=1, max_size=9))
def test_a_part_of_another_type_is_unread_in_a_models_message_alone(one: str, other: str) -> None:
    part = {"type": f"{one}_{other}", "id": "c1", "payload": {"a": 1}}
    assert read_part(part) == Unread(f"{one}_{other}")
    for role in ("user", "system", "tool", "developer", "human"):
        read = message_of({"role": role, "content": [part]})
        assert read is not None
        assert read.unread == ()
    for role in ("assistant", "model", "ai"):
        read = message_of({"role": role, "content": [{"type": "text", "text": "hi"}, part]})
        assert read is not None
        assert (read.text, read.unread) == ("hi", (part["type"],))


@pytest.mark.parametrize("type_", [*HARMLESS, *NO_CALLS])
def test_what_is_harmless_or_on_offer_or_asks_for_approval_is_no_call(type_: str) -> None:
    assert isinstance(read_part({"type": type_, **CALL}), str | None)  # a refusal is a text


def test_a_part_with_nothing_but_its_type_is_no_call() -> None:
    assert read_part({"type": "start_of_something"}) is None
    assert read_part({"type": "function", "name": "pay", "parameters": {"type": "object"}}) is None


@pytest.mark.parametrize("type_", ["dynamic-tool", "anything", "tool.execution"])
def test_a_name_and_an_input_are_a_call(type_: str) -> None:
    read = read_part({"type": type_, "toolName": "pay", "toolCallId": "c1", "input": {"a": 1}})
    assert read == MessageCall("pay", "c1", '{"a":1}')


PAGE = {"toolCallId": "c1", "input": {"id": 7}}
RAN = ToolResult("pay", "c1", '"ok"', failed=False)


@pytest.mark.parametrize(
    ("part", "call"),
    [
        # Anthropic
        (
            {"type": "server_tool_use", "id": "c1", "name": "web_search", "input": {"q": "a"}},
            MessageCall("web_search", "c1", '{"q":"a"}', by_provider=True),
        ),
        (
            {"type": "mcp_tool_use", "id": "c1", "name": "pay", "server_name": "x", "input": {}},
            MessageCall("pay", "c1", "{}", by_provider=True),
        ),
        # OpenAI's Responses
        (
            {"type": "web_search_call", "id": "c1", "status": "completed", "action": {"query": "a"}},
            MessageCall(
                "web_search",
                "c1",
                '{"query":"a"}',
                by_provider=True,
                result=ToolResult("web_search", "c1", None, failed=False),
            ),
        ),
        (
            {"type": "file_search_call", "id": "c1", "status": "failed", "queries": ["a"], "results": None},
            MessageCall(
                "file_search",
                "c1",
                '{"queries":["a"]}',
                by_provider=True,
                result=ToolResult("file_search", "c1", None, failed=True),
            ),
        ),
        (
            {"type": "mcp_call", "id": "c1", "name": "pay", "arguments": "{}", "output": "ok", "error": None},
            MessageCall("pay", "c1", "{}", by_provider=True, result=ToolResult("pay", "c1", '"ok"')),
        ),
        (
            {"type": "mcp_call", "id": "c1", "name": "pay", "arguments": "{}", "error": "no such order"},
            MessageCall(
                "pay",
                "c1",
                "{}",
                by_provider=True,
                result=ToolResult("pay", "c1", '"no such order"', failed=True),
            ),
        ),
        (
            {"type": "computer_call", "id": "i1", "call_id": "c1", "action": {"type": "click"}},
            MessageCall("computer", "c1", '{"type":"click"}', other_id="i1"),
        ),
        (
            {"type": "local_shell_call", "id": "i1", "call_id": "c1", "action": {"command": ["ls"]}},
            MessageCall("local_shell", "c1", '{"command":["ls"]}', other_id="i1"),
        ),
        (
            {"type": "custom_tool_call", "id": "i1", "call_id": "c1", "name": "pay", "input": "now"},
            MessageCall("pay", "c1", '"now"', other_id="i1"),
        ),
        # the conventions, Gemini, pydantic-ai
        (
            {"type": "server_tool_call", "id": "c1", "name": "web_search", "server_tool_call": {"type": "w"}},
            MessageCall("web_search", "c1", None, by_provider=True),
        ),
        (
            {"toolCall": {"toolType": "GOOGLE_SEARCH", "id": "c1", "args": {"q": "a"}}},
            MessageCall("GOOGLE_SEARCH", "c1", '{"q":"a"}', by_provider=True),
        ),
        (
            {"type": "builtin-tool-call", "tool_name": "web_search", "args": {}, "tool_call_id": "c1"},
            MessageCall("web_search", "c1", "{}", by_provider=True),
        ),
        # pages of the AI SDK
        ({"type": "tool-pay", "state": "input-available", **PAGE}, MessageCall("pay", "c1", '{"id":7}')),
        (
            {"type": "tool-pay", "state": "output-available", **PAGE, "output": "ok"},
            MessageCall("pay", "c1", '{"id":7}', result=RAN),
        ),
        (
            {"type": "tool-pay", "state": "output-error", **PAGE, "errorText": "no"},
            MessageCall("pay", "c1", '{"id":7}', result=ToolResult("pay", "c1", '"no"', failed=True)),
        ),
        (
            {"type": "tool-pay", "state": "output-denied", **PAGE},
            MessageCall(
                "pay", "c1", '{"id":7}', result=ToolResult("pay", "c1", '{"type":"execution-denied"}')
            ),
        ),
        (
            {
                "type": "tool-pay",
                "state": "output-available",
                "providerExecuted": True,
                **PAGE,
                "output": "ok",
            },
            MessageCall("pay", "c1", '{"id":7}', by_provider=True, result=RAN),
        ),
        (
            {
                "type": "tool-invocation",
                "toolInvocation": {
                    "state": "result",
                    "toolCallId": "c1",
                    "toolName": "pay",
                    "args": {"id": 7},
                    "result": "ok",
                },
            },
            MessageCall("pay", "c1", '{"id":7}', result=RAN),
        ),
        ({"type": "tool_call", "id": "c1", "name": "pay"}, MessageCall("pay", "c1", None)),
        ({"toolUse": {"toolUseId": "c1", "name": "pay", "input": {}}}, MessageCall("pay", "c1", "{}")),
    ],
)
def test_calls_of_all_kinds_have_their_name_their_mark_and_their_own_result(
    part: dict[str, Any], call: MessageCall
) -> None:
    assert read_part(part) == call


@pytest.mark.parametrize(
    ("part", "result"),
    [
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "web_search_result"}],
            },
            ToolResult(None, "c1", '[{"type":"web_search_result"}]'),
        ),
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "c1",
                "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
            },
            ToolResult(
                None, "c1", '{"error_code":"unavailable","type":"web_search_tool_result_error"}', failed=True
            ),
        ),
        (
            {"type": "mcp_tool_result", "tool_use_id": "c1", "is_error": True, "content": "no"},
            ToolResult(None, "c1", '"no"', failed=True),
        ),
        (
            {"type": "server_tool_call_response", "id": "c1", "server_tool_call_response": {"n": 1}},
            ToolResult(None, "c1", '{"n":1}'),
        ),
        (
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
            ToolResult(None, "c1", '"ok"'),
        ),
        (
            {
                "type": "tool-result",
                "toolCallId": "c1",
                "toolName": "pay",
                "output": {"type": "error-text", "value": "no"},
            },
            ToolResult("pay", "c1", '"no"', failed=True),
        ),
        (
            {"type": "tool-error", "toolCallId": "c1", "toolName": "pay", "error": "no"},
            ToolResult("pay", "c1", '"no"', failed=True),
        ),
    ],
)
def test_results_of_all_kinds_have_the_id_and_the_failure_of_their_call(
    part: dict[str, Any], result: ToolResult
) -> None:
    assert read_part(part) == result


def test_code_without_a_name_is_no_call() -> None:
    assert read_part({"executableCode": {"code": "1"}}) == CodeRun()
    assert read_part({"codeExecutionResult": {"output": "1"}}) is None
    exchange = read_exchange(None, [{"role": "model", "parts": [{"executable_code": {"code": "1"}}]}])
    assert (exchange.code_runs, exchange.tool_calls, exchange.unread) == (1, (), ())


def test_the_items_of_a_response_are_read_as_parts_of_the_models_message() -> None:
    items = [
        {"type": "mcp_list_tools", "id": "l1", "tools": [{"name": "pay"}]},
        {"type": "web_search_call", "id": "w1", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "pay", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
        {"type": "brand_new", "id": "b1", "payload": 1},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]
    exchange = read_exchange(None, items)
    assert [call.name for call in exchange.tool_calls] == ["web_search", "pay"]
    assert exchange.tool_calls[1].result == ToolResult(None, "c1", '"ok"')
    assert (exchange.unread, exchange.response) == (("brand_new",), "Done.")


@given(st.lists(st.sampled_from(["a", "b", None]), max_size=4), st.booleans(), st.booleans())
def test_requests_in_one_list_are_calls_each_and_in_two_places_one_call_in_two_forms(
    ids: list[str | None], in_content: bool, in_kwargs: bool
) -> None:
    listed = [{"id": id_, "name": "pay", "args": {"n": 40}} for id_ in ids]
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": listed}
    if in_content:
        message["content"] = [
            {"type": "tool_use", "id": id_, "name": "pay", "input": {"n": 40.0}} for id_ in ids
        ]
    if in_kwargs:
        function = {"name": "pay", "arguments": '{"n": 40.0}'}
        calls = [{"id": id_, "type": "function", "function": function} for id_ in ids]
        message["additional_kwargs"] = {"tool_calls": calls}
    read = message_of(message)
    assert read is not None
    assert [call.call_id for call in read.tool_calls] == ids


@given(st.sampled_from(sorted(FAILURES)), st.sampled_from([None, False, 0, "", [], {}, "false"]))
def test_a_field_of_failures_is_one_unless_it_says_nothing(field: str, nothing: Any) -> None:
    assert mark_of({"content": "x", field: nothing}) in (None, "succeeded")
    camel = field.split("_", maxsplit=1)[0] + "".join(map(str.title, field.split("_")[1:]))
    for value in ({"message": "no"}, True, 1, "no"):
        assert mark_of({"content": "x", field: value}) == "failed"
        assert mark_of({"content": "x", camel: value}) == "failed"


@given(st.sampled_from(["status", "state", "outcome", "tool_status"]), WORDS)
def test_a_status_says_what_its_word_does_and_an_unknown_word_that_nothing_is_known(
    field: str, word: str
) -> None:
    known = {**dict.fromkeys(SUCCESS_WORDS, "succeeded"), **dict.fromkeys(FAILURE_WORDS, "failed")}
    assert mark_of({field: word}) == known.get(word, None if word in {"call", "unset"} else "unknown")
    for one, mark in known.items():
        assert mark_of({field: one.upper()}) == mark


@pytest.mark.parametrize("field", ["tool_failures", "errorInfo", "access_denied", "exceptions"])
def test_a_field_that_tells_of_errors_and_is_not_listed_leaves_the_outcome_unknown(field: str) -> None:
    assert mark_of({"content": "x", field: "something"}) == "unknown"
    assert mark_of({"content": "x", field: 0}) is None


def test_an_empty_content_beside_an_unknown_field_leaves_the_outcome_unknown() -> None:
    assert mark_of({"content": "", "notice": "limit"}, "") == "unknown"
    assert mark_of({"content": "x", "notice": "limit"}, "x") is None
    assert mark_of({"content": "", "tool_call_id": "c1", "metadata": {"a": 1}}, "") is None


RM = {"id": "c8", "name": "rm", "arguments": {"x": 1}}
FUNCTION = {"id": "c8", "type": "function", "function": {"name": "rm", "arguments": '{"x": 1}'}}


@pytest.mark.parametrize(
    "message",
    [
        *({"content": "", key: [FUNCTION]} for key in ("toolCalls", "tool_uses", "toolInvocations")),
        *({"content": "", key: FUNCTION} for key in ("functionCall", "tool_call", "server_tool_use")),
        {"content": "", "invalid_tool_calls": [{"id": "c8", "name": "rm", "args": {"x": 1}}]},
        {"content": "", "tool_calls": json.dumps([FUNCTION])},
        {"content": "", "tool_calls": {"0": FUNCTION}},
        {"content": "", "additional_kwargs": {"toolCalls": [FUNCTION]}},
        {"content": json.dumps([{"type": "tool_use", **RM}])},
        {"content": {"parts": [{"type": "tool_call", **RM}]}},
        {"parts": [{"part_kind": "tool-call", **RM}]},
        {"content": [RM]},
        {"toolCalls": [FUNCTION]},
        {"role": None, "message": {"role": "assistant", "tool_calls": [FUNCTION]}},
        {"role": None, "delta": {"tool_calls": [FUNCTION]}},
        *({"role": role, "content": [RM]} for role in ("Assistant", "MODEL", "AI", "CHATBOT", "planner")),
    ],
    ids=str,
)
def test_a_call_in_any_place_of_a_models_message_is_one(message: dict[str, Any]) -> None:
    read = message_of({"role": "assistant", **message})
    assert read is not None
    assert [(call.name, call.call_id, call.arguments) for call in read.tool_calls] == [
        ("rm", "c8", '{"x":1}')
    ]


@pytest.mark.parametrize(
    "beside",
    [
        {"parallel_tool_calls": True},
        {"max_tool_calls": 3},
        {"tool_call_id": "c8"},
        {"tool_call_ids": ["c8"]},
        {"tool_call_chunks": [FUNCTION]},
        {"toolCalls": []},
        {"use": {"name": "rm"}},
        {"call": {"name": "rm"}},
    ],
    ids=str,
)
def test_what_only_speaks_of_calls_is_none(beside: dict[str, Any]) -> None:
    read = message_of({"role": "assistant", "content": "ok", **beside})
    assert read is not None
    assert (read.text, read.tool_calls, read.unread) == ("ok", (), ())


def test_a_list_among_the_parts_of_a_models_message_is_unread() -> None:
    nested = {"content": [[{"type": "tool_use", **RM}]]}
    assert message_of({"role": "assistant", **nested}) == Message("assistant", None, unread=("list",))
    assert message_of({"role": "user", **nested}) == Message("user", None)


def test_a_reply_that_is_json_of_its_own_stays_a_text() -> None:
    for said in ('[{"type": "circle", "name": "a", "input": 1}]', "[1, 2]", '[{"type": "text"', "[]", "[a]"):
        read = message_of({"role": "assistant", "content": said})
        assert read is not None
        assert (read.text, read.tool_calls) == (said, ())
