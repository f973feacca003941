"""Spans and log records as rows, under the column names of spangrade's own tables and of other programs.

A row is a JSON object: of a JSON document, or of a table in Parquet, DuckDB or CSV. Besides spangrade's
`spans` and `logs`: the columns of the OpenTelemetry Collector's exporter for ClickHouse, which the first
versions of duckdb-otlp share, those of duckdb-otlp, and otel-desktop-viewer's values.

https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/exporter/clickhouseexporter
https://github.com/smithclay/duckdb-otlp/blob/main/site/src/content/docs/reference/schemas.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from spangrade.converters.recordings import plain
from spangrade.converters.spans.values import first_text, parse_json
from spangrade.tracer.otlp.common import (
    NESTING,
    MalformedError,
    ScopeGroup,
    decoded,
    log_warnings,
    span_warnings,
)
from spangrade.tracer.span import Attributes, LogRecord, Problem, Span

Row = Mapping[str, Any]


class _Columns(NamedTuple):
    """The names under which a row has the parts of a record; None where it has no such part.

    `end` is a time, and if it is None, `duration` is a number of nanoseconds. With `texts`, all values of
    attributes are texts.
    """

    trace_id: str = "trace_id"
    span_id: str = "span_id"
    parent: str = "parent_span_id"
    name: str = "name"
    kind: str = "kind"
    start: str = "start_ns"
    end: str | None = "end_ns"
    duration: str = ""
    status: str = "status"
    message: str = "status_message"
    attributes: str = "attributes"
    events: str = "events"
    links: str = "links"
    resource: str = "resource"
    scope: str = "scope_name"
    version: str = "scope_version"
    trace_state: str = "trace_state"
    texts: bool = False

    @property
    def needed(self) -> frozenset[str]:
        """The columns by which such rows are recognized."""
        end = self.end or self.duration
        return frozenset({self.trace_id, self.span_id, self.name, self.start, end, self.attributes})


class _LogColumns(NamedTuple):
    trace_id: str = "trace_id"
    span_id: str = "span_id"
    time: str = "time_ns"
    event_name: str = "event_name"
    severity: str = "severity"
    body: str = "body"
    attributes: str = "attributes"
    resource: str = "resource"
    scope: str = "scope_name"
    version: str = "scope_version"
    json_body: bool = False

    @property
    def needed(self) -> frozenset[str]:
        """The columns by which such rows are recognized."""
        return frozenset({self.trace_id, self.span_id, self.time, self.body, self.attributes})


_SPANS = (
    _Columns(),
    _Columns(
        trace_id="TraceId",
        span_id="SpanId",
        parent="ParentSpanId",
        name="SpanName",
        kind="SpanKind",
        start="Timestamp",
        end=None,
        duration="Duration",
        status="StatusCode",
        message="StatusMessage",
        attributes="SpanAttributes",
        events="Events",
        links="Links",
        resource="ResourceAttributes",
        scope="ScopeName",
        version="ScopeVersion",
        trace_state="TraceState",
        texts=True,
    ),
    _Columns(
        start="start_time_unix_nano",
        end=None,
        duration="duration_time_unix_nano",
        status="status_code",
        message="status_status_message",
        attributes="span_attributes",
        events="events_json",
        links="links_json",
        resource="resource_attributes",
    ),
    # OTLP's own names in snake_case, as Databricks' tables of traces have them.
    _Columns(
        start="start_time_unix_nano",
        end="end_time_unix_nano",
        status="status_code",
        resource="resource_attributes",
    ),
)
_LOGS = (
    _LogColumns(json_body=True),
    _LogColumns(
        trace_id="TraceId",
        span_id="SpanId",
        time="Timestamp",
        event_name="EventName",
        severity="SeverityText",
        body="Body",
        attributes="LogAttributes",
        resource="ResourceAttributes",
        scope="ScopeName",
        version="ScopeVersion",
    ),
    _LogColumns(
        time="time_unix_nano",
        severity="severity_text",
        attributes="log_attributes",
        resource="resource_attributes",
    ),
)


def read(document: Any) -> Iterator[Span | LogRecord | Problem] | None:
    """Return the records of a row or a list of rows, or None if they have other columns."""
    found = plain.rows(document)
    if found is None:
        return None
    where, rows = found
    group = ScopeGroup(where, rows, {}, None, None)
    for columns in _SPANS:
        if columns.needed <= rows[0].keys():
            return decoded([group], partial(_read, _span, columns), span_warnings)
    for log_columns in _LOGS:
        if log_columns.needed <= rows[0].keys():
            return decoded([group], partial(_read, _log, log_columns), log_warnings)
    return None


def _read(read_row: Callable[[Any, Row], Any], columns: Any, row: Any, group: ScopeGroup) -> Any:  # noqa: ARG001
    if not isinstance(row, dict):
        raise MalformedError("expected a row, a JSON object")
    return read_row(columns, row)


def _span(columns: _Columns, row: Row) -> Span:
    start_ns = _time(row.get(columns.start), columns.start)
    if columns.end is None:
        end_ns = start_ns + plain.scaled_ns(row.get(columns.duration), 1, columns.duration)
    else:
        end_ns = _time(row.get(columns.end), columns.end)
    attributes = _object(row, columns.attributes)
    return Span(
        trace_id=plain.trace_id(row.get(columns.trace_id)),
        span_id=plain.span_id(row.get(columns.span_id)),
        parent_span_id=plain.optional_span_id(row.get(columns.parent)),
        name=plain.text(row.get(columns.name), columns.name),
        kind=plain.kind(row.get(columns.kind)),
        start_ns=start_ns,
        end_ns=end_ns,
        status=plain.status(row.get(columns.status)),
        status_message=plain.text(row.get(columns.message), columns.message) or None,
        attributes=plain.with_lists(attributes) if columns.texts else attributes,
        events=[_event(event) for event in _list(row, columns.events)],
        links=[_link(link) for link in _list(row, columns.links)],
        resource=_object(row, columns.resource),
        scope_name=first_text((row.get(columns.scope),)),
        scope_version=first_text((row.get(columns.version),)),
        trace_state=first_text((row.get(columns.trace_state),)),
    )


def _log(columns: _LogColumns, row: Row) -> LogRecord:
    trace_id, span_id = row.get(columns.trace_id), row.get(columns.span_id)
    body = row.get(columns.body)
    return LogRecord(
        trace_id=plain.trace_id(trace_id) if trace_id else None,
        span_id=plain.optional_span_id(span_id),
        time_ns=_time(row.get(columns.time), columns.time),
        event_name=first_text((row.get(columns.event_name),)),
        severity=first_text((row.get(columns.severity),)),
        body=plain.json_value(parse_json(body) if columns.json_body else body),
        attributes=_object(row, columns.attributes),
        resource=_object(row, columns.resource),
        scope_name=first_text((row.get(columns.scope),)),
        scope_version=first_text((row.get(columns.version),)),
    )


def _time(value: Any, what: str) -> int:
    """Return a time: an integer, also as text, is nanoseconds, other texts are ISO 8601."""
    if isinstance(value, str) and not value.isdigit():
        return plain.time_ns(value, what)
    return plain.scaled_ns(value, 1, what)


def _object(row: Row, column: str) -> Attributes:
    """Return an object, or the one in a JSON text, as attributes."""
    value = row.get(column)
    return _attributes(plain.cell(value) if value != "" else None, column)


def _attributes(value: Any, what: str) -> Attributes:
    """Return an object as attributes, or pairs of a key and a value with its kind (otel-desktop-viewer)."""
    if isinstance(value, list):
        pairs = plain.objects(value, what)
        value = {plain.text(pair.get("key"), "key"): _of_kind(pair.get("value"), NESTING) for pair in pairs}
    return plain.json_object(value, what)


def _of_kind(node: Any, depth: int) -> Any:
    """Return the value of `{"kind": …, "value": …}`."""
    if not depth:
        raise MalformedError(f"a value nested deeper than {NESTING} levels")
    match node:
        case {"kind": "array", "value": list(items)}:
            return [_of_kind(item, depth - 1) for item in items]
        case {"kind": "map", "value": list(pairs)}:
            entries = plain.objects(pairs, "a map")
            return {
                plain.text(entry.get("key"), "key"): _of_kind(entry.get("value"), depth - 1)
                for entry in entries
            }
        case {"kind": "int64", "value": str(digits)} if digits.removeprefix("-").isdigit():
            return int(digits[:20])
        case {"kind": str()}:
            return node.get("value")
    raise MalformedError("expected an attribute's value with its kind")


def _list(row: Row, column: str) -> list[dict[str, Any]]:
    """Return a list of objects, the one in a JSON text, or of an object of lists, as ClickHouse has."""
    value = row.get(column)
    value = plain.cell(value) if value != "" else None
    if isinstance(value, dict):
        columns = [cells for cells in value.values() if isinstance(cells, list)]
        value = [dict(zip(value, cells, strict=False)) for cells in zip(*columns, strict=False)]
    return plain.objects(value, column)


def _event(event: Row) -> Attributes:
    time = _first(event, "time_ns", "time_unix_nano", "timeUnixNano", "Timestamp", "timestamp")
    return {
        "name": plain.text(_first(event, "name", "Name"), "name of an event"),
        "time_ns": _time(time, "time of an event"),
        "attributes": _attributes(
            parse_json(_first(event, "attributes", "Attributes")), "attributes of an event"
        ),
    }


def _link(link: Row) -> Attributes:
    return {
        "trace_id": plain.trace_id(_first(link, "trace_id", "traceId", "TraceId")),
        "span_id": plain.span_id(_first(link, "span_id", "spanId", "SpanId")),
        "attributes": plain.json_object(
            parse_json(_first(link, "attributes", "Attributes")), "attributes of a link"
        ),
    }


def _first(record: Row, *names: str) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)
