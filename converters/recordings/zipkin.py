"""Zipkin's JSON, version 2: a list of spans, or `/api/v2/traces`, a list of such lists.

The mapping of OpenTelemetry's spans to Zipkin's is
https://opentelemetry.io/docs/specs/otel/trace/sdk_exporters/zipkin/; this module reverses it. All values of
tags are texts. Exporters add the resource's attributes to the tags, and they stay there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spangrade.converters.recordings import plain
from spangrade.converters.recordings.plain import span_of_tags
from spangrade.converters.spans.values import parse_json
from spangrade.tracer.otlp.common import MalformedError, ScopeGroup, decoded, span_warnings
from spangrade.tracer.span import Attributes, Problem, Span

_KEYS = frozenset({"traceId", "id"})
_OTHERS = frozenset({"spanId", "startTime", "start_time", "type"})  # other formats with such ids have these
_OWN = frozenset({"timestamp", "localEndpoint", "tags", "kind", "duration", "annotations", "shared", "debug"})
_MICROSECONDS = 1000


def read(document: Any) -> Iterator[Span | Problem] | None:
    """Return the spans of a list of Zipkin's spans or traces, or None if the document is something else."""
    match document:
        case [dict() as first, *_] if _is_span(first):
            return decoded([ScopeGroup("", document, {}, None, None)], _span, span_warnings)
        case [[dict() as first, *_], *_] if _is_span(first):
            groups = [
                ScopeGroup(f"[{number}]", _spans(trace), {}, None, None)
                for number, trace in enumerate(document)
            ]
            return decoded(groups, _span, span_warnings)
        case dict() if _is_span(document):
            return decoded([ScopeGroup("", [document], {}, None, None)], _span, span_warnings)
    return None


def _is_span(record: Mapping[str, Any]) -> bool:
    keys = record.keys()
    return keys >= _KEYS and not _OTHERS & keys and bool(_OWN & keys)


def _spans(trace: Any) -> list[Any]:
    return trace if isinstance(trace, list) else [trace]


def _span(record: Any, group: ScopeGroup) -> Span:  # noqa: ARG001 (nothing is shared by spans)
    if not isinstance(record, dict):
        raise MalformedError("expected a span, a JSON object")
    start_ns = plain.scaled_ns(record.get("timestamp"), _MICROSECONDS, "timestamp")
    endpoint = record.get("localEndpoint")
    service = endpoint.get("serviceName") if isinstance(endpoint, dict) else None
    return span_of_tags(
        plain.json_object(record.get("tags"), "tags"),
        given_kind=record.get("kind"),
        trace_id=plain.trace_id(record.get("traceId")),
        span_id=plain.span_id(record.get("id")),
        parent_span_id=plain.optional_span_id(record.get("parentId")),
        name=plain.text(record.get("name"), "name"),
        start_ns=start_ns,
        end_ns=start_ns + plain.scaled_ns(record.get("duration") or 0, _MICROSECONDS, "duration"),
        events=[_event(note) for note in plain.objects(record.get("annotations"), "annotations")],
        resource={"service.name": plain.text(service, "serviceName")} if service else {},
    )


def _event(annotation: Mapping[str, Any]) -> Attributes:
    """Return an annotation as an event; its value is the event's name, or `{"NAME": {attributes}}`."""
    value = annotation.get("value")
    name: Any = value
    attributes: Any = {}
    match parse_json(value):
        case {**named} if len(named) == 1 and isinstance(next(iter(named.values())), dict):
            ((name, attributes),) = named.items()
    return {
        "name": plain.text(name, "value of an annotation"),
        "time_ns": plain.scaled_ns(annotation.get("timestamp"), _MICROSECONDS, "timestamp of an annotation"),
        "attributes": plain.json_object(attributes, "an annotation"),
    }
