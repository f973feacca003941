"""Jaeger's query API: `{"data": [{"traceID": …, "spans": […], "processes": {…}}]}`, or a trace alone.

The mapping of OpenTelemetry's spans to Jaeger's is
https://opentelemetry.io/docs/specs/otel/trace/sdk_exporters/jaeger/; this module reverses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spangrade.converters.recordings import plain
from spangrade.converters.recordings.plain import span_of_tags
from spangrade.tracer.otlp.common import MalformedError, ScopeGroup, decoded, span_warnings
from spangrade.tracer.span import Attributes, Problem, Span

_TRACE_KEYS = frozenset({"traceID", "spans"})
_MICROSECONDS = 1000


def read(document: Any) -> Iterator[Span | Problem] | None:
    """Return the spans of Jaeger's traces, or None if the document is something else."""
    match document:
        case {"data": [dict() as first, *_] as traces} if first.keys() >= _TRACE_KEYS:
            return _traces(traces, "data")
        case {"traceID": _, "spans": list()}:
            return _traces([document], "")
        case [dict() as first, *_] if first.keys() >= _TRACE_KEYS:
            return _traces(document, "")
    return None


def _traces(traces: Sequence[Any], where: str) -> Iterator[Span | Problem]:
    for number, trace in enumerate(traces):
        place = f"{where}[{number}]" if len(traces) > 1 or where else where
        if not isinstance(trace, dict) or not isinstance(trace.get("spans"), list):
            yield Problem(place, "expected a trace with a list of spans")
            continue
        resources = trace.get("processes")
        processes = resources if isinstance(resources, dict) else {}

        def span(record: Any, group: ScopeGroup, processes: Mapping[str, Any] = processes) -> Span:  # noqa: ARG001
            return _span(record, processes)

        group = ScopeGroup(f"{place}.spans" if place else "spans", trace["spans"], {}, None, None)
        yield from decoded([group], span, span_warnings)


def _span(record: Any, processes: Mapping[str, Any]) -> Span:
    if not isinstance(record, dict):
        raise MalformedError("expected a span, a JSON object")
    start_ns = plain.scaled_ns(record.get("startTime"), _MICROSECONDS, "startTime")
    process = record.get("process") or processes.get(str(record.get("processID"))) or {}
    resource = _resource(process)
    return span_of_tags(
        _tags(record.get("tags"), "tags"),
        trace_id=plain.trace_id(record.get("traceID")),
        span_id=plain.span_id(record.get("spanID")),
        parent_span_id=_parent(record),
        name=plain.text(record.get("operationName"), "operationName"),
        start_ns=start_ns,
        end_ns=start_ns + plain.scaled_ns(record.get("duration") or 0, _MICROSECONDS, "duration"),
        events=[_event(log) for log in plain.objects(record.get("logs"), "logs")],
        links=[_link(reference) for reference in _references(record) if not _is_parent(record, reference)],
        resource=resource,
    )


def _references(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    return plain.objects(record.get("references"), "references")


def _is_parent(record: Mapping[str, Any], reference: Mapping[str, Any]) -> bool:
    same_trace = reference.get("traceID") in (None, record.get("traceID"))
    return same_trace and reference.get("refType") == "CHILD_OF"


def _parent(record: Mapping[str, Any]) -> str | None:
    parents = (ref.get("spanID") for ref in _references(record) if _is_parent(record, ref))
    return plain.optional_span_id(next(parents, record.get("parentSpanID")))


def _link(reference: Mapping[str, Any]) -> Attributes:
    return {
        "trace_id": plain.trace_id(reference.get("traceID")),
        "span_id": plain.span_id(reference.get("spanID")),
        "attributes": {},
    }


def _event(log: Mapping[str, Any]) -> Attributes:
    fields = _tags(log.get("fields"), "fields of a log")
    name = fields.pop("event", None)
    return {
        "name": name if isinstance(name, str) else "",
        "time_ns": plain.scaled_ns(log.get("timestamp"), _MICROSECONDS, "timestamp of a log"),
        "attributes": fields,
    }


def _resource(process: Any) -> Attributes:
    if not isinstance(process, dict):
        return {}
    resource = _tags(process.get("tags"), "tags of a process")
    if isinstance(service := process.get("serviceName"), str):
        resource["service.name"] = service
    return plain.json_object(resource, "tags of a process")


def _tags(items: Any, what: str) -> Attributes:
    """Return key-value pairs as attributes; a number that came as text becomes one by the pair's type."""
    attributes: Attributes = {}
    for item in plain.objects(items, what):
        key, value = item.get("key"), item.get("value")
        if not isinstance(key, str):
            raise MalformedError(f"{what}: expected a key that is text")
        match item.get("type"), value:
            case "int64", str() if value.removeprefix("-").isdigit() and len(value) <= 20:
                value = int(value)
            case "bool", "true" | "false":
                value = value == "true"
        attributes[key] = value
    return plain.json_object(attributes, what)
