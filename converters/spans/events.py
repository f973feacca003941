"""A span's attributes with those of its events: log records, events of the span, or a list on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spangrade.converters.spans.values import parse_json, text
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
        elif name in _DETAILS or name.startswith("gen_ai.content."):
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
