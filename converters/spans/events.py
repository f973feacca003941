"""What events of a span, and log records beside it, add to what it records.

Events of the conventions are attributes, or messages. Of others, whatever they are called, a record with the
id of a call completes the tool's call of that id: its name, arguments, result and outcome. A record of an
event `….user_prompt` or `….user_message` has the user's message. Both count wherever in the trace the record
stands: also beside a web server's span, or beside none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from spangrade.converters.spans.messages import is_injected
from spangrade.converters.spans.observation import (
    MessageCall,
    MessageExchange,
    ModelCall,
    Observation,
    RunSpan,
    SpanFailure,
    Structure,
    ToolResult,
    ToolUse,
    TurnSpan,
)
from spangrade.converters.spans.outcomes import mark_of
from spangrade.converters.spans.values import (
    arguments_text,
    first_of,
    first_text,
    json_text,
    parse_json,
    text,
)
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_BATCH = 1_000  # records of one span that may come again
_DETAILS = frozenset(
    {
        "gen_ai.client.inference.operation.details",
        "gen_ai.operation.details",
        "gen_ai.usage",  # ax
    }
)
_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
# Bedrock's blocks, which Strands writes as JSON text.
_BLOCKS = frozenset({"text", "toolUse", "toolResult"})


def with_events(span: Span, logs: Sequence[LogRecord]) -> Mapping[str, Any]:
    """Return a span's attributes, and from its events and logs those that it lacks.

    Current events (`gen_ai.client.inference.operation.details`) have the messages as attributes; older
    ones (`gen_ai.user.message`, `gen_ai.choice`, …) are one message each.
    """
    attributes = span.attributes
    if not logs and "events" not in attributes and not any(map(_is_genai, span.events)):
        return attributes
    merged: dict[str, Any] = {}
    inputs: list[Any] = []
    outputs: list[Any] = []
    for name, fields, body in _events(span, logs):
        if name in _ROLES:
            (outputs if name == "gen_ai.choice" else inputs).append(message_of_event(name, body))
        elif _is_of_messages(name):
            merged.update(fields)
            if isinstance(body, dict):
                merged.update(body)
    if inputs:
        merged.setdefault(semconv.INPUT_MESSAGES, inputs)
    if outputs:
        merged.setdefault(semconv.OUTPUT_MESSAGES, outputs)
    if not merged:
        return attributes
    merged.update(attributes)
    return merged


def _events(span: Span, logs: Sequence[LogRecord]) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Yield (name, attributes, body) of the GenAI events, in the order in which they were recorded."""
    delivered: list[tuple[int, str, Any, Mapping[str, Any]]] = []  # of one time
    for log in sorted(logs, key=lambda record: record.time_ns):
        name = log.event_name or log.attributes.get("event.name")
        if isinstance(name, str) and name.startswith("gen_ai."):
            record = (log.time_ns, name, log.body, log.attributes)
            if delivered and delivered[0][0] != log.time_ns:
                delivered.clear()
            if record in delivered[-_BATCH:]:  # an exporter that gets no answer sends a batch again
                continue
            delivered.append(record)
            yield name, log.attributes, parse_json(log.body)
    for event in filter(_is_genai, span.events):
        fields = event["attributes"]
        content = fields.get("gen_ai.event.content")  # in place of a body, which events did not have
        yield event["name"], fields, fields if content is None else parse_json(content)
    listed = parse_json(span.attributes.get("events"))
    for body in listed if isinstance(listed, list) else ():
        if isinstance(body, dict) and isinstance(body.get("event.name"), str):
            yield body["event.name"], body, body


def _is_of_messages(name: str) -> bool:
    """Return whether an event is one of the conventions for the messages of a model, or for its details."""
    return name in _ROLES or name in _DETAILS or name.startswith("gen_ai.content.")


def _is_genai(event: Mapping[str, Any]) -> bool:
    return (text(event.get("name")) or "").startswith("gen_ai.")


def message_of_event(name: str, body: Any) -> dict[str, Any]:
    """Return the message that an event stands for, in the shape of the providers' APIs."""
    message = {"role": _ROLES[name], **body} if isinstance(body, dict) else {"content": body}
    inner = parse_json(message["message"]) if "message" in message else None
    if isinstance(inner, dict):
        message |= inner
    elif inner is not None:
        message["content"] = message["message"] if isinstance(inner, str) else inner
    content = message.get("content")
    if isinstance(content, dict) and "parts" in content:  # Google's Content, which has a role too
        message |= content
    elif isinstance(content, str) and content.startswith("[{"):
        blocks = parse_json(content)
        if isinstance(blocks, list) and all(isinstance(b, dict) and b.keys() & _BLOCKS for b in blocks):
            message["content"] = blocks
    message["role"] = message.get("role") or _ROLES[name]
    return message


CALL_IDS = (semconv.TOOL_CALL_ID, "call_id", "tool_call_id", "tool_use_id", "function.id")
_TOOL_NAMES = (semconv.TOOL_NAME, "tool_name", "function_name", "function.name", "tool")
_ARGUMENTS = (semconv.TOOL_CALL_ARGUMENTS, "arguments", "tool_input", "function_args", "args", "input")
_RESULTS = (semconv.TOOL_CALL_RESULT, "output", "result", "tool_response", "tool_output")
_PROMPTS = ("prompt", "message", "content", "text")
_OF_USER = ("user_prompt", "user_message")


def with_logs(observation: Observation, logs: Sequence[LogRecord]) -> Observation:
    """Return an observation completed by the log records beside its span."""
    for log, name, fields in _told_by(logs):
        if name == semconv.RECEIVER_RESTARTED:
            observation = observation._replace(notes=observation.notes._replace(restarted_ns=log.time_ns))
            continue
        call_id = first_text(map(fields.get, CALL_IDS))
        if isinstance(observation, ToolUse):
            if call_id and observation.call_id in (None, call_id):
                known = observation.name or first_text(map(fields.get, _TOOL_NAMES))
                observation = _completed(observation._replace(name=known, call_id=call_id), fields)
        elif isinstance(observation, RunSpan | TurnSpan | ModelCall):
            exchange = observation.exchange
            if call_id:
                exchange = _with_call(exchange, call_id, fields)
            elif exchange.user_input is None:
                exchange = exchange._replace(user_input=_said(log, name, fields))
            observation = observation._replace(exchange=exchange)
    return observation


def with_logs_of_trace(observations: Sequence[Observation], logs: Sequence[LogRecord]) -> list[Observation]:
    """Return a trace's observations completed by the log records beside other spans than of calls and runs.

    A user's message counts only if no span records one: for the work that begins after it, else around it.
    """
    found = sorted(observations, key=lambda o: (o.span.start_ns, -o.span.end_ns, o.span.span_id))
    structures = {o.span.span_id: isinstance(o, Structure) for o in found}
    apart = [log for log in logs if structures.get(log.span_id or "", True)]
    tools: dict[str, int] = {}
    for number, tool in enumerate(found):
        if isinstance(tool, ToolUse) and tool.call_id:
            tools.setdefault(tool.call_id, number)  # the outermost of those with one id
    asking = [(n, o) for n, o in enumerate(found) if isinstance(o, RunSpan | TurnSpan | ModelCall)]
    is_silent = all(o.exchange.user_input is None for _, o in asking)
    for log, name, fields in _told_by(apart):
        if call_id := first_text(map(fields.get, CALL_IDS)):
            if call_id in tools and isinstance(called := found[tools[call_id]], ToolUse):
                found[tools[call_id]] = _completed(called, fields)
        elif is_silent and (said := _said(log, name, fields)):
            after = [(o.span.start_ns, n) for n, o in asking if o.span.start_ns >= log.time_ns]
            around = [(-o.span.end_ns, n) for n, o in asking if o.span.end_ns >= log.time_ns]
            if after or around:
                _, number = min(after or around)
                asked = found[number]
                if isinstance(asked, RunSpan | TurnSpan | ModelCall) and asked.exchange.user_input is None:
                    found[number] = asked._replace(exchange=asked.exchange._replace(user_input=said))
    return found


def _told_by(logs: Sequence[LogRecord]) -> Iterator[tuple[LogRecord, str, Mapping[str, Any]]]:
    """Yield log records by time, each with the name of its event and its fields."""
    for log in sorted(logs, key=lambda record: record.time_ns):
        name = log.event_name or text(log.attributes.get("event.name")) or ""
        if not _is_of_messages(name):
            body = parse_json(log.body)
            yield log, name, {**log.attributes, **body} if isinstance(body, dict) else log.attributes


def _said(log: LogRecord, name: str, fields: Mapping[str, Any]) -> str | None:
    """Return the message of the user that a log record has; None if it has none."""
    said = first_text((*map(fields.get, _PROMPTS), log.body)) if name.endswith(_OF_USER) else None
    return None if said is None or is_injected(said) else said


def _completed(tool: ToolUse, fields: Mapping[str, Any]) -> ToolUse:
    """Return a tool's call with the fields that a log record of it adds."""
    arguments, result = arguments_text(first_of(fields, _ARGUMENTS)), json_text(first_of(fields, _RESULTS))
    failure = tool.failure
    if _is_failed(fields):
        failure = failure or SpanFailure()
        failure = failure._replace(error=failure.error or text(fields.get("error")))
    return tool._replace(arguments=tool.arguments or arguments, result=tool.result or result, failure=failure)


def _is_failed(fields: Mapping[str, Any]) -> bool | None:
    mark = mark_of(fields)
    return None if mark in (None, "unknown") else mark == "failed"


def _with_call(exchange: MessageExchange, call_id: str, fields: Mapping[str, Any]) -> MessageExchange:
    """Return an exchange with the call, and the result, of a record."""
    name = first_text(map(fields.get, _TOOL_NAMES))
    arguments, result = arguments_text(first_of(fields, _ARGUMENTS)), json_text(first_of(fields, _RESULTS))
    failed = _is_failed(fields)
    calls, results = exchange.tool_calls, exchange.tool_results
    if arguments is not None and not _has(calls, call_id):
        calls = (*calls, MessageCall(name, call_id, arguments))
    if (result is not None or failed is not None) and not _has(results, call_id):
        results = (*results, ToolResult(name, call_id, result, failed))
    return exchange._replace(tool_calls=calls, tool_results=results)


def _has(records: Iterable[MessageCall | ToolResult], call_id: str) -> bool:
    return any(record.call_id == call_id for record in records)
