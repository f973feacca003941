"""Monocle: the kind in `span.type`, names in numbered entities, contents in the events of a span.

https://github.com/monocle2ai/monocle/blob/main/apptrace/docs/monocle_telemetry_schema.md
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs, kind_by
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.values import json_object, json_text, literal, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

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


def _event(span: Span, name: str) -> dict[str, Any]:
    events = [json_object(e.get("attributes")) for e in span.events if e.get("name") == name]
    return events[-1] if events else {}


def _io(span: Span) -> tuple[Any, Any]:
    given, answered = _event(span, "data.input").get("input"), _event(span, "data.output").get("response")
    return parse_json(given), parse_json(answered)


def _values(span: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    name, (given, answered) = attributes.get("entity.1.name"), _io(span)
    if kind == "agent":
        return {semconv.AGENT_NAME: name}
    if kind == "tool":
        own = {semconv.TOOL_NAME: name, semconv.TOOL_CALL_ARGUMENTS: _arguments(given)}
        return own | {semconv.TOOL_CALL_RESULT: answered}
    own = {semconv.TURN_INPUT: _last(given), semconv.TURN_OUTPUT: _last(answered)}
    if kind == "llm":
        usage, provider = _event(span, "metadata"), text(attributes.get("entity.1.type")) or ""
        own[semconv.PROVIDER_NAME] = provider.removeprefix("inference.")
        own[semconv.RESPONSE_MODEL] = attributes.get("entity.2.name")
        own[semconv.INPUT_TOKENS] = usage.get("prompt_tokens")
        own[semconv.OUTPUT_TOKENS] = usage.get("completion_tokens")
    return own


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
    names={"scope.agentic.session": semconv.CONVERSATION_ID},
    kind=kind_by("span.type", _KINDS, "other"),
    values=_values,
    alone=True,
    advice=Advice(
        name="Monocle",
        conversation='run each conversation in the scope "agentic.session" of Monocle',
    ),
)
