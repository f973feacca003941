"""Reading from the store what sessions are built from: observations of spans, and state in session logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from duckdb import DuckDBPyConnection

from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.not_understood import ignored_scopes
from spangrade.evaluator.derive.session_from import session_from, session_id_of, with_session_ids
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.sql import statement

_FETCH = 1_024


class TraceRange(NamedTuple):
    """Where the spans and logs of one trace are in the order of arrival."""

    trace_id: str
    first_seq: int
    last_seq: int


def observations_of(store: Store, traces: Sequence[TraceRange]) -> dict[str, list[Observation]]:
    """Return the observations of traces, by trace; their spans are read and dropped a thousand at a time."""
    if not traces:
        return {}
    logs = _logs(store, traces)
    by_trace: dict[str, list[Observation]] = {trace.trace_id: [] for trace in traces}
    attributes, ignored = session_from(store), ignored_scopes(store)
    session_ids: dict[str, dict[str, str]] = {}
    for spans in _spans(store, traces):
        for observation in observe(spans, logs):
            if observation.not_understood in ignored:
                observation = observation._replace(not_understood=None)
            by_trace[observation.trace_id].append(observation)
        for span in spans if attributes else ():
            if session_id := session_id_of(span, attributes):
                session_ids.setdefault(span.trace_id, {})[span.span_id] = session_id
    return by_trace | {
        trace_id: with_session_ids(by_trace[trace_id], by_span) for trace_id, by_span in session_ids.items()
    }


def _spans(store: Store, traces: Sequence[TraceRange]) -> Iterator[list[Span]]:
    loads = orjson.loads
    resources: dict[str, Any] = {}
    cursor = _select(store, "spans", Span._fields, traces)
    while rows := cursor.fetchmany(_FETCH):
        spans = []
        for row in rows:
            span = Span._make(row)
            resource = resources.get(row[12])
            if resource is None:
                resource = resources[row[12]] = loads(row[12])
            spans.append(
                span._replace(
                    attributes=loads(row[9]),
                    events=loads(row[10]) if row[10] != "[]" else [],
                    links=[],
                    resource=resource,
                )
            )
        yield spans


def _logs(store: Store, traces: Sequence[TraceRange]) -> Mapping[tuple[str, str], list[LogRecord]]:
    by_span: dict[tuple[str, str], list[LogRecord]] = {}
    for row in _select(store, "logs", LogRecord._fields, traces).fetchall():
        record = LogRecord._make(row)
        if record.trace_id and record.span_id:
            body = None if record.body is None else orjson.loads(record.body)
            read = record._replace(body=body, attributes=orjson.loads(row[6]), resource={})
            by_span.setdefault((record.trace_id, record.span_id), []).append(read)
    return by_span


def _select(
    store: Store, table: str, columns: Sequence[str], traces: Sequence[TraceRange]
) -> DuckDBPyConnection:
    """Start to read the rows of traces; they are not all in memory at once."""
    wanted = arrow_column("trace_id", [trace.trace_id for trace in traces])
    store.query("CREATE OR REPLACE TEMP TABLE sought AS FROM incoming", incoming=wanted)
    return store.connection.execute(
        f"SELECT {', '.join(columns)} FROM {table} SEMI JOIN sought USING (trace_id) "  # noqa: S608 (our own names)
        "WHERE seq BETWEEN $first AND $last",
        {"first": min(t.first_seq for t in traces), "last": max(t.last_seq for t in traces)},
    )


def sessions_with_logs(store: Store, after: int) -> set[str]:
    """Return the ids of the sessions that got session logs after an arrival."""
    return {session_id for session_id, _, _ in store.query(_session_logs(), {"seq": after})}


def logged_state(
    store: Store, session_ids: Iterable[str]
) -> Mapping[str, list[tuple[int, Mapping[str, Any]]]]:
    """Return the state variables in session logs as (time in ns, variables), by session."""
    rows = store.query(
        f"SELECT * FROM ({_session_logs()}) SEMI JOIN wanted USING (session_id)",  # noqa: S608 (our own text)
        {"seq": 0},
        wanted=arrow_column("session_id", list(session_ids)),
    )
    by_session: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for session_id, time_ns, text in rows:
        value = None if text is None else orjson.loads(text)
        if isinstance(value, dict):
            by_session.setdefault(session_id, []).append((time_ns, value))
    return by_session


def _session_logs() -> str:
    return statement("session_logs", "spangrade.evaluator.derive.sql")
