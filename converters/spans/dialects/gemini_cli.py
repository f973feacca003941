"""Gemini CLI: the conventions, with names of its own for the operations.

https://geminicli.com/docs/cli/telemetry/
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs, kind_by
from spangrade.converters.spans.observation import Kind, SpanFailure, ToolUse
from spangrade.converters.spans.values import json_object
from spangrade.tracer import semconv
from spangrade.tracer.span import Span


def _values(_: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    """Return a tool's id and arguments; its messages do not hold its result."""
    if kind != "tool":
        return {}
    arguments = json_object(attributes.get(semconv.INPUT_MESSAGES)).get("args")
    return {
        semconv.TOOL_CALL_ID: attributes.get("gen_ai.tool.call_id"),
        semconv.TOOL_CALL_ARGUMENTS: arguments,
    }


def _tool(call: ToolUse, _: Span, attributes: Attributes) -> ToolUse:
    status = json_object(attributes.get(semconv.OUTPUT_MESSAGES)).get("status")
    return call._replace(failure=call.failure or SpanFailure()) if status == "error" else call


DIALECT = Dialect(
    name="gemini-cli",
    signs=Signs(scopes=frozenset({"gemini-cli"})),
    kind=kind_by(semconv.OPERATION_NAME, {"llm_call": "llm", "tool_call": "tool"}, "other"),
    values=_values,
    fixes={"tool": _tool},
    advice=Advice(
        name="Gemini CLI",
        content='set "logPrompts": true and "traces": true in "telemetry" of settings.json',
        tools='set "traces": true in "telemetry" of settings.json',
        model_calls='set "traces": true in "telemetry" of settings.json',
    ),
)
