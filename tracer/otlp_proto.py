"""OTLP protobuf messages into spans and log records."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as ProtoLog
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from spangrade.tracer.otlp_rules import (
    KINDS,
    NESTING,
    STATUSES,
    MalformedError,
    checked_time,
    log_oddities,
    not_finite,
    span_oddities,
)
from spangrade.tracer.span import Attributes, LogRecord, Problem, Span


def parse(body: bytes) -> ExportTraceServiceRequest | ExportLogsServiceRequest | None:
    """Return the export request that the bytes are, or None where they are none with a record in it.

    Both requests nest alike; a span begins with its ids, a log record with its time, and neither type has
    the other's there.
    """
    try:
        spans: ExportTraceServiceRequest = ExportTraceServiceRequest.FromString(body)
        if any(s.trace_id or s.span_id for r in spans.resource_spans for g in r.scope_spans for s in g.spans):
            return spans
    except DecodeError:
        pass
    try:
        logs: ExportLogsServiceRequest = ExportLogsServiceRequest.FromString(body)
        if any(
            log.time_unix_nano or log.observed_time_unix_nano
            for r in logs.resource_logs
            for g in r.scope_logs
            for log in g.log_records
        ):
            return logs
    except DecodeError:
        pass
    return None


def decode(
    message: ExportTraceServiceRequest | ExportLogsServiceRequest,
) -> Iterator[Span | LogRecord | Problem]:
    """Yield a request's records in their order, and Problems by the rules of `otlp_json.decode`."""
    # 10.3 µs for a span of nine attributes (1.8 kB), after 0.7 µs in protobuf's own parser.
    if isinstance(message, ExportTraceServiceRequest):
        yield from _spans(message)
    else:
        yield from _logs(message)


def _spans(message: ExportTraceServiceRequest) -> Iterator[Span | Problem]:
    for i, per_resource in enumerate(message.resource_spans):
        resource, problem = _resource(per_resource.resource.attributes, f"resourceSpans[{i}]")
        if problem:
            yield problem
        for j, per_scope in enumerate(per_resource.scope_spans):
            scope_name, scope_version = per_scope.scope.name or None, per_scope.scope.version or None
            for k, record in enumerate(per_scope.spans):
                try:
                    span = _span(record, resource, scope_name, scope_version)
                except MalformedError as error:
                    yield Problem(f"resourceSpans[{i}].scopeSpans[{j}].spans[{k}]", str(error))
                    continue
                yield span
                if span.end_ns < span.start_ns or not span.start_ns or span.parent_span_id == span.span_id:
                    where = f"resourceSpans[{i}].scopeSpans[{j}].spans[{k}]"
                    for oddity in span_oddities(span):
                        yield Problem(where, oddity, dropped=False)


def _logs(message: ExportLogsServiceRequest) -> Iterator[LogRecord | Problem]:
    for i, per_resource in enumerate(message.resource_logs):
        resource, problem = _resource(per_resource.resource.attributes, f"resourceLogs[{i}]")
        if problem:
            yield problem
        for j, per_scope in enumerate(per_resource.scope_logs):
            scope_name, scope_version = per_scope.scope.name or None, per_scope.scope.version or None
            for k, record in enumerate(per_scope.log_records):
                where = f"resourceLogs[{i}].scopeLogs[{j}].logRecords[{k}]"
                try:
                    log = _log(record, resource, scope_name, scope_version)
                except MalformedError as error:
                    yield Problem(where, str(error))
                    continue
                yield log
                for oddity in log_oddities(log):
                    yield Problem(where, oddity, dropped=False)


def _resource(items: Iterable[KeyValue], where: str) -> tuple[Attributes, Problem | None]:
    try:
        return _attributes(items), None
    except MalformedError as error:
        return {}, Problem(where, f"{error}; its records are kept without a resource", dropped=False)


def _span(record: ProtoSpan, resource: Attributes, scope_name: str | None, scope_version: str | None) -> Span:
    return Span(
        trace_id=_id(record.trace_id, 16, "traceId"),
        span_id=_id(record.span_id, 8, "spanId"),
        parent_span_id=_optional_id(record.parent_span_id, 8, "parentSpanId"),
        name=record.name,
        kind=_named(KINDS, record.kind, "kind"),
        start_ns=checked_time(record.start_time_unix_nano, "startTimeUnixNano"),
        end_ns=checked_time(record.end_time_unix_nano, "endTimeUnixNano"),
        status=_named(STATUSES, record.status.code, "status.code"),
        status_message=record.status.message or None,
        attributes=_attributes(record.attributes),
        events=[
            {
                "name": event.name,
                "time_ns": checked_time(event.time_unix_nano, "timeUnixNano of an event"),
                "attributes": _attributes(event.attributes),
            }
            for event in record.events
        ],
        links=[
            {
                "trace_id": _id(link.trace_id, 16, "traceId of a link"),
                "span_id": _id(link.span_id, 8, "spanId of a link"),
                "attributes": _attributes(link.attributes),
            }
            for link in record.links
        ],
        resource=resource,
        scope_name=scope_name,
        scope_version=scope_version,
        trace_state=record.trace_state or None,
    )


def _log(
    record: ProtoLog, resource: Attributes, scope_name: str | None, scope_version: str | None
) -> LogRecord:
    attributes = _attributes(record.attributes)
    event_name = record.event_name or attributes.get("event.name")
    return LogRecord(
        trace_id=_optional_id(record.trace_id, 16, "traceId"),
        span_id=_optional_id(record.span_id, 8, "spanId"),
        time_ns=checked_time(record.time_unix_nano or record.observed_time_unix_nano, "timeUnixNano"),
        event_name=event_name if isinstance(event_name, str) else None,
        severity=record.severity_text or None,
        body=_value(record.body, NESTING),
        attributes=attributes,
        resource=resource,
        scope_name=scope_name,
        scope_version=scope_version,
    )


def _attributes(items: Iterable[KeyValue], depth: int = NESTING) -> Attributes:
    attributes: Attributes = {}
    for item in items:
        value = item.value
        # Most values are text or whole numbers, and to ask for those costs less than to ask for the kind.
        attributes[item.key] = value.string_value or value.int_value or _value(value, depth)
    return attributes


def _value(value: AnyValue, depth: int) -> Any:
    """Return an AnyValue as a JSON value; an empty one is None."""
    if not depth:
        raise MalformedError(f"a value nested deeper than {NESTING} levels")
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "int_value":
            return value.int_value
        case "bool_value":
            return value.bool_value
        case "double_value":
            number = value.double_value
            return number if math.isfinite(number) else not_finite(number)
        case "array_value":
            return [_value(item, depth - 1) for item in value.array_value.values]
        case "kvlist_value":
            return _attributes(value.kvlist_value.values, depth - 1)
        case "bytes_value":
            return b64encode(value.bytes_value).decode()
        case None:
            return None
        case kind:
            raise MalformedError(f"an attribute's value is a {kind}, which spans do not have")


def _id(raw: bytes, size: int, what: str) -> str:
    if len(raw) == size and any(raw):
        return raw.hex()
    found = f"{what} is {len(raw)} bytes" if raw and len(raw) != size else f"no {what}"
    raise MalformedError(f"{found}; right is {size} bytes, not all zero")


def _optional_id(raw: bytes, size: int, what: str) -> str | None:
    return _id(raw, size, what) if any(raw) else None


def _named(names: tuple[str, ...], number: int, what: str) -> str:
    if 0 <= number < len(names):
        return names[number]
    raise MalformedError(f"{what} is {number}; right is 0 to {len(names) - 1}")
