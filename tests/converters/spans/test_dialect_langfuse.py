"""Langfuse's own attributes, one span at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import Fields
from recordings import observed

from spangrade.converters.spans.observation import MessageCall, ToolResult


def langfuse(kind: str, name: str = "s", **values: Any) -> Fields:
    given = {f"langfuse.observation.{key}": json.dumps(value) for key, value in values.items()}
    return observed({"langfuse.observation.type": kind} | given, name)


def test_a_model_call_has_its_messages() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q":"a"}'}}
    found = langfuse(
        "generation",
        input=[
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "tool_calls": [{**call, "id": "c0"}]},
            {"role": "tool", "tool_call_id": "c0", "content": "none"},
            {"role": "tool", "content": {"type": "function", "function": {"name": "find"}}},
        ],
        output={"role": "assistant", "content": "ho", "tool_calls": [call]},
    )
    assert (found.kind, found.user_input, found.response) == ("llm", "hi", "ho")
    assert found.tool_calls == (MessageCall("find", "c1", '{"q":"a"}'),)
    assert found.tool_results == (ToolResult(None, "c0", '"none"'),)
    assert found.tool_declarations is not None
    assert "find" in found.tool_declarations


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input": 10, "output": 5}, (10, 5, None, None)),
        ({"input": 10, "output": 5, "total": 15}, (10, 5, None, None)),
        ({"input": 6, "input_cached_tokens": 4, "output": 5, "total": 15}, (10, 5, 4, None)),
        ({"input": 10, "input_cached_tokens": 4, "output": 5, "total": 15}, (10, 5, 4, None)),
        ({"input": 10, "output": 2, "output_reasoning": 3, "total": 15}, (10, 5, None, 3)),
        (
            {"input": 6, "input_cached_tokens": 4, "output": 2, "output_reasoning": 3, "total": 15},
            (10, 5, 4, 3),
        ),
        ({"input": 6, "input_cached_tokens": 4, "output": 5}, (None, None, 4, None)),
        ({"input": 6, "input_cached_tokens": 4, "output": 5, "total": 99}, (None, None, 4, None)),
    ],
)
def test_details_are_part_of_the_sums_if_the_total_says_so(
    usage: dict[str, int], expected: tuple[int | None, ...]
) -> None:
    found = langfuse("generation", usage_details=usage)
    tokens = (found.input_tokens, found.output_tokens, found.cached_input_tokens, found.reasoning_tokens)
    assert tokens == expected


@pytest.mark.parametrize(
    ("value", "user_input"),
    [
        ({"args": ["hi"], "kwargs": {}}, "hi"),
        ({"args": [], "kwargs": {"question": "hi"}}, "hi"),
        ({"args": ["no"], "kwargs": {"question": "hi"}}, "hi"),
        ({"args": ["a", "b"], "kwargs": {"question": "hi"}}, "hi"),
        ({"question": "hi"}, "hi"),
    ],
)
def test_the_input_of_a_function_is_its_one_argument_or_those_with_names(value: Any, user_input: str) -> None:
    assert langfuse("agent", "shop", input=value).run_input == user_input


@pytest.mark.parametrize(
    ("level", "expected"),
    [("ERROR", (True, "took too long")), ("WARNING", (False, None)), (None, (False, None))],
)
def test_a_status_message_is_an_error_at_the_level_error_alone(
    level: str | None, expected: tuple[bool, str | None]
) -> None:
    attributes = {
        "langfuse.observation.type": "tool",
        "langfuse.observation.level": level,
        "langfuse.observation.status_message": "took too long",
    }
    found = observed({key: value for key, value in attributes.items() if value is not None}, "s")
    assert (found.failed, found.error) == expected
