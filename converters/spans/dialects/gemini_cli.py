"""Gemini CLI: the conventions, with names of its own for the operations.

https://geminicli.com/docs/cli/telemetry/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_object
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_OPERATIONS: Mapping[object, str] = {"llm_call": semconv.CHAT, "tool_call": semconv.EXECUTE_TOOL}
_CALL_ID = "gen_ai.tool.call_id"


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (the logs repeat the spans)
    """Read a span by the conventions, and a tool's outcome, which stands in its output."""
    attributes = dict(span.attributes)
    operation = _OPERATIONS.get(attributes.get(semconv.OPERATION_NAME))
    if operation is None:
        return genai.read_attributes(span, {})._replace(kind="other", not_understood=None)
    attributes[semconv.OPERATION_NAME] = operation
    if operation == semconv.CHAT:
        return genai.read_attributes(span, attributes)
    outcome = json_object(attributes.pop(semconv.OUTPUT_MESSAGES, None))
    call = json_object(attributes.pop(semconv.INPUT_MESSAGES, None))
    attributes |= {
        semconv.TOOL_CALL_ID: attributes.get(_CALL_ID),
        semconv.TOOL_CALL_ARGUMENTS: call.get("args"),
    }
    reading = genai.read_attributes(span, attributes)
    return reading._replace(failed=True) if outcome.get("status") == "error" else reading


DIALECT = Dialect(
    name="gemini-cli",
    signs=Signs(scopes=frozenset({"gemini-cli"})),
    read=read,
    advice=Advice(
        name="Gemini CLI",
        content='set "logPrompts": true and "traces": true in "telemetry" of settings.json',
        tools='set "traces": true in "telemetry" of settings.json',
        model_calls='set "traces": true in "telemetry" of settings.json',
    ),
)
