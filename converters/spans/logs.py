"""What log records beside a span tell of its calls and of the user, whatever their events are called.

A record with the id of a call completes the tool's call of that id: its name, arguments, result and outcome.
A record of an event `….user_prompt` or `….user_message` has the user's message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spangrade.converters.spans.messages import is_injected
from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import first_text, json_text, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord

CALL_IDS = (semconv.TOOL_CALL_ID, "call_id", "tool_call_id", "tool_use_id", "function.id")
_TOOL_NAMES = (semconv.TOOL_NAME, "tool_name", "function_name", "function.name", "tool")
_ARGUMENTS = (semconv.TOOL_CALL_ARGUMENTS, "arguments", "tool_input", "function_args", "args", "input")
_RESULTS = (semconv.TOOL_CALL_RESULT, "output", "result", "tool_response", "tool_output")
_PROMPTS = ("prompt", "message", "content", "text")
_OF_USER = ("user_prompt", "user_message")
_WITH_CALLS = frozenset({"llm", "agent", "workflow", "turn"})
_YES, _NO = (True, "true"), (False, "false")


def with_logs(reading: Reading, logs: Sequence[LogRecord]) -> Reading:
    """Return a reading completed by the log records beside its span."""
    for log in sorted(logs, key=lambda record: record.time_ns):
        name = log.event_name or text(log.attributes.get("event.name")) or ""
        if name.startswith("gen_ai."):  # of the conventions, read as messages
            continue
        body = parse_json(log.body)
        fields = {**log.attributes, **body} if isinstance(body, dict) else log.attributes
        if call_id := first_text(map(fields.get, CALL_IDS)):
            reading = _with_call(reading, call_id, fields)
        elif reading.kind in _WITH_CALLS and reading.user_input is None and name.endswith(_OF_USER):
            said = first_text((*map(fields.get, _PROMPTS), log.body))
            if said and not is_injected(said):
                reading = reading._replace(user_input=said)
    return reading


def _with_call(reading: Reading, call_id: str, fields: Mapping[str, Any]) -> Reading:
    name = first_text(map(fields.get, _TOOL_NAMES))
    arguments, result = (json_text(_first(fields, names)) for names in (_ARGUMENTS, _RESULTS))
    success = fields.get("success")
    failed = False if success in _YES else True if success in _NO else None
    if reading.kind == "tool" and reading.call_id in (None, call_id):
        return reading._replace(
            call_id=call_id,
            name=reading.name or name,
            arguments=reading.arguments or arguments,
            result=reading.result or result,
            failed=reading.failed or failed is True,
            error=reading.error or (text(fields.get("error")) if failed else None),
        )
    if reading.kind not in _WITH_CALLS:
        return reading
    calls, results = reading.tool_calls, reading.tool_results
    if arguments is not None and not _has(calls, call_id):
        calls = (*calls, MessageCall(name, call_id, arguments))
    if (result is not None or failed is not None) and not _has(results, call_id):
        results = (*results, ToolResult(name, call_id, result, failed))
    return reading._replace(tool_calls=calls, tool_results=results)


def _first(fields: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _has(records: Iterable[MessageCall | ToolResult], call_id: str) -> bool:
    return any(record.call_id == call_id for record in records)
