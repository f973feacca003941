"""What was removed is unknown before it is wrapped: a mask is no argument, id, name, text or result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_once import new_store
from recordings import observed

import spangrade
from spangrade.converters.spans.values import json_text
from spangrade.evaluator.maintenance.lint import advice
from spangrade.tracer.span import Span

MASKS = (
    "[REDACTED]",
    "<redacted>",
    "__REDACTED__",
    "***",
    "[Filtered]",
    "[Scrubbed due to 'password']",
    "redacted-by-litellm",
    "[content removed]",
    "<hidden>",
)
# What frameworks put around a tool's arguments, or around its result.
WRAPPINGS: tuple[Callable[[str], Any], ...] = (
    lambda mask: mask,
    lambda mask: {"order_id": mask},
    lambda mask: {"args": [], "kwargs": mask},
    lambda mask: {"args": [], "kwargs": {"order_id": mask, "note": mask}},
    lambda mask: {"input": mask, "options": None},
    lambda mask: {"input": {"order_id": mask}, "options": None},
    lambda mask: [mask],
    lambda mask: [{"type": "text", "text": mask}],
)
ONE = {"properties": {"order_id": {"type": "string"}}, "required": ["order_id"], "type": "object"}
OPENINFERENCE = {"openinference.span.kind": "TOOL", "tool.name": "find"}
TRACELOOP = {"traceloop.span.kind": "tool", "traceloop.entity.name": "find"}
GENAI = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
ACME = {"acme.span.kind": "tool", "acme.tool.name": "find", "acme.call.id": "c1"}
TOOLS: tuple[tuple[dict[str, Any], str, str], ...] = (
    (OPENINFERENCE, "input.value", "output.value"),
    (OPENINFERENCE | {"tool.parameters": json.dumps(ONE)}, "input.value", "output.value"),
    (TRACELOOP, "traceloop.entity.input", "traceloop.entity.output"),
    (GENAI, "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    (ACME, "acme.input", "acme.output"),
)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("wrap", WRAPPINGS)
@pytest.mark.parametrize(("tool", "inputs", "outputs"), TOOLS)
def test_a_mask_is_neither_an_argument_nor_a_result(
    mask: str, wrap: Callable[[str], Any], tool: dict[str, Any], inputs: str, outputs: str
) -> None:
    wrapped = wrap(mask)
    value = wrapped if isinstance(wrapped, str) else json.dumps(wrapped)
    found = observed({**tool, inputs: value, outputs: value})
    assert (found.kind, found.name, found.arguments, found.result) == ("tool", "find", None, None)


@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_is_no_name_and_no_id(mask: str) -> None:
    found = observed({**GENAI, "gen_ai.tool.name": mask, "gen_ai.tool.call.id": mask}, f"execute_tool {mask}")
    assert found.kind == "other"
    named = observed({"openinference.span.kind": "TOOL", "tool.name": mask, "tool_call.id": mask}, "find.run")
    assert (named.name, named.call_id) == ("find", None)
    assert observed({"openinference.span.kind": "TOOL"}, f"{mask}.run").kind == "other"


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "message",
    [
        lambda mask: {"role": "assistant", "content": mask},
        lambda mask: {"role": "assistant", "content": {"answer": mask}},
        lambda mask: {"role": "assistant", "content": [{"type": "text", "text": mask}]},
        lambda mask: {"role": "assistant", "parts": [{"type": "text", "content": mask}]},
        lambda mask: {"role": "assistant", "content": None, "refusal": mask},
        lambda mask: {"role": "assistant", "content": None, "parsed": {"answer": mask}},
    ],
)
def test_a_mask_is_no_reply(mask: str, message: Callable[[str], Any]) -> None:
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1"}
    assert not observed(call | {"gen_ai.output.messages": json.dumps([message(mask)])}).response
    run = {"openinference.span.kind": "CHAIN", "output.value": json.dumps({"answer": mask})}
    assert observed(run).run_output is None


@pytest.mark.parametrize("mask", MASKS)
def test_the_arguments_of_a_call_in_a_message_are_not_a_mask(mask: str) -> None:
    call = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"order_id": mask}}
    output = json.dumps([{"role": "assistant", "parts": [call]}])
    found = observed({"gen_ai.operation.name": "chat", "gen_ai.output.messages": output})
    assert [(one.name, one.arguments) for one in found.tool_calls] == [("find", None)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text("ab[<", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, st.sampled_from(MASKS))
def test_what_holds_anything_beside_masks_is_kept(value: Any, mask: str) -> None:
    assert (json_text({"one": value, "other": [mask]}) is None) is not _holds(value)


def _holds(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_holds, value.values() if isinstance(value, dict) else value))
    return value is not None


def test_lint_shows_what_stands_in_place_of_what_was_removed() -> None:
    given = {**OPENINFERENCE, "input.value": json.dumps({"order_id": "__REDACTED__"})}
    tool = Span("a" * 32, "b" * 16, None, "find", "INTERNAL", 0, 1, attributes=given)
    help_ = advice("no_tool_arguments", tool)
    assert help_ is not None
    assert help_.endswith("(they were removed: `__REDACTED__` stands in their place)")
    assert "removed" not in (advice("no_tool_arguments", tool._replace(attributes=OPENINFERENCE)) or "")


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("tool", "inputs", "outputs"), TOOLS)
@pytest.mark.short_form("mask", 4)
def test_one_masked_argument_beside_others_is_null_and_lint_says_what_removed_it(
    mask: str, tool: dict[str, Any], inputs: str, outputs: str, tmp_path: Path
) -> None:
    given = {"order_id": mask, "limit": 5, "filter": {"by": [mask, "state"], "note": None}}
    root = {"openinference.span.kind": "AGENT", "agent.name": "desk", "session.id": "s1"}
    spans = [
        Span("a" * 32, "1" * 16, None, "desk", "INTERNAL", 1, 9, attributes=root),
        Span(
            "a" * 32,
            "2" * 16,
            "1" * 16,
            "find",
            "INTERNAL",
            2,
            3,
            attributes={
                **tool,
                inputs: json.dumps(given),
                outputs: "found",
            },
        ),
    ]
    with new_store(tmp_path / "s.duckdb") as store:
        store.add(spans)
    db = spangrade.open(tmp_path / "s.duckdb")
    (session,) = db
    (call,) = session.tool_interactions
    expected = {"order_id": None, "limit": 5, "filter": {"by": [None, "state"], "note": None}}
    assert (call.input_arguments, call.arguments_known, call.arguments_removed) == (expected, True, True)
    (finding,) = (one for one in db.lint() if one.code == "removed_arguments")
    assert finding.advice is not None
    assert mask in finding.advice
