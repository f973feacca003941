"""Monocle: the kind in `span.type`, names in numbered entities, contents in the events of a span.

https://github.com/monocle2ai/monocle/blob/main/apptrace/docs/monocle_telemetry_schema.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import count, json_object, json_text, literal, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_KINDS: dict[str | None, Kind] = {
    "agentic.turn": "turn",
    "agentic.request": "turn",
    "agentic.invocation": "agent",
    "agentic.tool.invocation": "tool",
    "agentic.mcp.invocation": "tool",
    "inference": "llm",
    "inference.framework": "llm",  # around one `inference.modelapi`, which has no contents
}
_MOST = 100_000  # characters of the repr of a tool's arguments


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (it records no logs)
    """Read a span by its type and its events."""
    attributes = span.attributes
    kind = _KINDS.get(text(attributes.get("span.type")), "other")
    session = attributes.get("scope.agentic.session")
    own = {semconv.OPERATION_NAME: genai.NO_STEP, semconv.CONVERSATION_ID: session}
    reading = genai.read_attributes(span, own)._replace(kind=kind, not_understood=None)
    events = {text(event.get("name")): json_object(event.get("attributes")) for event in span.events}
    given = parse_json(events.get("data.input", {}).get("input"))
    answered = parse_json(events.get("data.output", {}).get("response"))
    if kind == "turn":
        return reading._replace(user_input=_last(given), response=_last(answered))
    if kind == "agent":
        return reading._replace(name=text(attributes.get("entity.1.name")))
    if kind == "tool":
        name, passed = text(attributes.get("entity.1.name")), _arguments(given)
        return reading._replace(name=name, arguments=passed, result=json_text(answered))
    return reading if kind == "other" else _model_call(reading, attributes, events, given, answered)


def _model_call(
    reading: Reading,
    attributes: Mapping[str, Any],
    events: Mapping[str | None, Mapping[str, Any]],
    given: Any,
    answered: Any,
) -> Reading:
    usage, answer = events.get("metadata", {}), answered
    if isinstance(answered, dict) and len(answered) == 1:
        (answer,) = answered.values()  # by its role: {"ai": "…"}
    return reading._replace(
        model=text(attributes.get("entity.2.name")),
        provider=(text(attributes.get("entity.1.type")) or "").removeprefix("inference.") or None,
        user_input=_last(given),
        response=text(answer),
        input_tokens=count(usage.get("prompt_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
    )


def _last(value: Any) -> str | None:
    """Return the last text of a list, or a text; a text may be the one value of an object, by its role."""
    last = parse_json(value[-1]) if isinstance(value, list) and value else value
    if isinstance(last, dict) and len(last) == 1:
        (last,) = last.values()
    return text(last)


def _arguments(given: Any) -> str | None:
    """Return a tool's arguments, which are recorded as the repr of a dictionary."""
    passed = literal(given) if isinstance(given, str) and len(given) <= _MOST else given
    return json_text(given if passed is None else passed)


DIALECT = Dialect(
    name="monocle",
    signs=Signs(scopes=frozenset({"monocle_apptrace"})),
    read=read,
    advice=Advice(
        name="Monocle",
        conversation='run each conversation in the scope "agentic.session" of Monocle',
    ),
)
