"""The spellings of a call's arguments, as the table of docs/reading.md has them."""

from __future__ import annotations

from typing import Any

import pytest

from spangrade.converters.spans.observation import MessageCall, ToolUse
from spangrade.converters.spans.parts import read_call, read_part
from spangrade.converters.spans.registry import observe
from spangrade.tracer.span import Span

TABLE: list[tuple[Any, str | None]] = [
    *((one, "{}") for one in (None, "", "null", '""', '"null"', "{}", '"{}"', {})),
    ({"a": 1}, '{"a":1}'),
    ('{"a": 1}', '{"a":1}'),
    ('"{\\"a\\": 1}"', '{"a":1}'),
    ({"a": "1"}, '{"a":"1"}'),
    ("[REDACTED]", None),
    ("Oslo", '"Oslo"'),
]
# Where dialects have a tool's arguments.
SPANS: list[tuple[dict[str, Any], str]] = [
    ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}, "gen_ai.tool.call.arguments"),
    ({"openinference.span.kind": "TOOL", "tool.name": "look"}, "input.value"),
    ({"traceloop.span.kind": "tool", "traceloop.entity.name": "look"}, "traceloop.entity.input"),
    ({"langfuse.observation.type": "tool"}, "langfuse.observation.input"),
    (
        {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "look", "ai.toolCall.id": "c1"},
        "ai.toolCall.args",
    ),
]


@pytest.mark.parametrize(("written", "expected"), TABLE, ids=repr)
def test_arguments_in_messages_are_those_of_the_table(written: Any, expected: str | None) -> None:
    for part in (
        {"type": "tool_use", "id": "c1", "name": "look", "input": written},
        {"type": "tool_call", "id": "c1", "name": "look", "arguments": written},
        {"functionCall": {"name": "look", "args": written}},
    ):
        read = read_part(part)
        assert isinstance(read, MessageCall)
        assert read.arguments == expected
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": written}}
    assert read_call(call).arguments == expected


@pytest.mark.parametrize(("attributes", "place"), SPANS)
@pytest.mark.parametrize(("written", "expected"), [one for one in TABLE if isinstance(one[0], str)], ids=repr)
def test_arguments_of_a_tools_span_are_those_of_the_table(
    attributes: dict[str, Any], place: str, written: str, expected: str | None
) -> None:
    span = Span("1" * 32, "1" * 16, None, "look", "INTERNAL", 1, 2, attributes=attributes | {place: written})
    (read,) = observe([span], {})
    assert isinstance(read, ToolUse)
    assert read.arguments == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"functionCall": {"name": "look"}}, "{}"),
        ({"function_call": {"name": "look", "id": "c1"}}, "{}"),
        ({"functionCall": {"name": "look", "args": "[REDACTED]"}}, None),
        ({"type": "tool_use", "id": "c1", "name": "look"}, None),
        ({"type": "function", "id": "c1", "function": {"name": "look"}}, None),
    ],
)
def test_missing_arguments_are_none_where_the_writer_leaves_them_out(part: Any, expected: str | None) -> None:
    read = read_part(part)
    assert isinstance(read, MessageCall)
    assert read.arguments == expected
