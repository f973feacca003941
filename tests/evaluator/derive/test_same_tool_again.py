"""A tool that fails and is tried again, recorded without the ids of calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recordings import sessions

from spangrade.tracer.span import Span

SCOPES = ("lib", "openinference.instrumentation.acme", "opentelemetry.instrumentation.langchain")


def span(number: int, parent: int, start: int, end: int, **fields: Any) -> Span:
    ids = ("a" * 32, f"{number:016x}", f"{parent:016x}" if parent else None, "step", "INTERNAL")
    return Span(*ids, start, end, **fields)


def model_call(number: int, start: int, end: int, call: str | None, scope: str) -> Span:
    """A model call that requests the tool under an id, which only messages have."""
    parts: list[dict[str, Any]] = [{"type": "text", "content": "Done."}]
    if call:
        parts = [{"type": "tool_call", "id": call, "name": "find", "arguments": {"q": "soil"}}]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
    attributes["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": parts}])
    return span(number, 1, start, end, attributes=attributes, scope_name=scope)


def tool(number: int, parent: int, start: int, error: str | None, scope: str, arguments: str | None) -> Span:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    if arguments:
        attributes["gen_ai.tool.call.arguments"] = arguments
    if error is None:
        attributes["gen_ai.tool.call.result"] = '"3 found"'
    status = {"status": "ERROR", "status_message": error} if error else {}
    return span(number, parent, start, start + 5, attributes=attributes, scope_name=scope, **status)


RUN = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("arguments", ['{"q":"soil"}', None, '{"q":"soil","context":"x"}'])
@pytest.mark.short_form("arguments", 8)
def test_each_try_belongs_to_the_model_call_that_asked_for_it_and_keeps_its_error(
    scope: str, inside: bool, arguments: str | None, tmp_path: Path
) -> None:
    until = 20 if inside else 0  # the model's span encloses the tool, or has ended
    spans = [
        span(1, 0, 0, 200, attributes=RUN, scope_name=scope),
        model_call(2, 10, 19 + until, "c1", scope),
        tool(3, 2 if inside else 1, 30, "no shop", scope, arguments),
        model_call(4, 50, 59 + until, "c2", scope),
        tool(5, 4 if inside else 1, 70, None, scope, arguments),
        model_call(6, 90, 99, None, scope),
    ]
    (session,) = sessions(spans, tmp_path / "s.duckdb")
    tried = [(c.call_id, c.ok, c.error, c.output) for c in session.tool_interactions]
    assert tried == [("c1", False, "no shop", None), ("c2", True, None, "3 found")]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_try_without_a_span_takes_no_other_ones_span(scope: str, tmp_path: Path) -> None:
    spans = [
        span(1, 0, 0, 200, attributes=RUN, scope_name=scope),
        model_call(2, 10, 19, "c1", scope),
        model_call(4, 50, 59, "c2", scope),
        tool(5, 1, 70, None, scope, '{"q":"soil"}'),
        model_call(6, 90, 99, None, scope),
    ]
    (session,) = sessions(spans, tmp_path / "s.duckdb")
    assert [(c.call_id, c.output) for c in session.tool_interactions] == [("c2", "3 found")]
    assert [c.tool_name for c in session.requested_calls] == ["find"]
