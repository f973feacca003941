"""Reading the records of sessions from the store: spans, their logs, and state in session logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from duckdb import DuckDBPyConnection

from spangrade.evaluator.derive.build_session import Logged
from spangrade.evaluator.derive.evaluations import session_evaluations
from spangrade.evaluator.results.views import with_views
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.sql import statement

_FETCH = 1_024
_NEWEST = 2**63 - 1  # no arrival is later
# What another process gets at once: some 15 MB of spans with messages.
AT_ONCE = 8_192  # rows
AT_ONCE_BYTES = 32_000_000

Row = tuple[Any, ...]


class TraceRange(NamedTuple):
    """Where the spans and logs of one trace are in the order of arrival."""

    trace_id: str
    first_seq: int
    last_seq: int


class StoredRows(NamedTuple):
    """Rows as the tables hold them: spans, in batches, and logs."""

    spans: Iterable[Sequence[Row]]
    logs: Sequence[Row]


def arrived_rows(store: Store, after: int, upto: int, traces: str | None = None) -> tuple[StoredRows, int]:
    """Return the first rows that arrived after one number and up to another, and the number of the last.

    They are at most `AT_ONCE`, or `AT_ONCE_BYTES` of text; of the traces in a table, if it is given.
    """
    arrived = {"after": after, "upto": min(upto, after + AT_ONCE)}
    cursor = store.connection.execute(_arrived("spans", Span._fields, traces), arrived)
    spans: list[Row] = []
    size = 0
    while rows := cursor.fetchmany(_FETCH):
        spans += [row[1:] for row in rows]
        size += sum(len(row[10]) + len(row[11]) for row in rows)
        if size >= AT_ONCE_BYTES:
            arrived["upto"] = rows[-1][0]
            break
    logs = [row[1:] for row in store.query(_arrived("logs", LogRecord._fields, traces), arrived)]
    return StoredRows([spans], logs), arrived["upto"]


def _arrived(table: str, columns: Sequence[str], traces: str | None) -> str:
    only = f"SEMI JOIN {traces} USING (trace_id) " if traces else ""
    return (
        f"SELECT seq, {', '.join(columns)} FROM {table} {only}"  # noqa: S608 (our own names)
        "WHERE seq > $after AND seq <= $upto ORDER BY seq"
    )


def stored_rows(store: Store, traces: Sequence[TraceRange]) -> StoredRows:
    """Return the rows of traces. Spans are read a thousand at a time: take them before the next query."""
    if not traces:
        return StoredRows((), ())
    logs = _select(store, "logs", LogRecord._fields, traces).fetchall()
    return StoredRows(_batches(store, traces), logs)


def _batches(store: Store, traces: Sequence[TraceRange]) -> Iterator[list[Row]]:
    cursor = _select(store, "spans", Span._fields, traces)
    while rows := cursor.fetchmany(_FETCH):
        yield rows


def spans_of(batches: Iterable[Sequence[Row]]) -> Iterator[list[Span]]:
    """Yield rows as spans, in the same batches; their links are left out."""
    loads = orjson.loads
    resources: dict[str, Any] = {}
    for rows in batches:
        spans = []
        for row in rows:
            resource = resources.get(row[12])
            if resource is None:
                resource = resources[row[12]] = loads(row[12])
            events = loads(row[10]) if row[10] != "[]" else []
            spans.append(Span._make((*row[:9], loads(row[9]), events, [], resource, *row[13:])))
        yield spans


def logs_of(rows: Iterable[Row]) -> Iterator[LogRecord]:
    """Yield rows as log records; their resource is left out."""
    for row in rows:
        record = LogRecord._make(row)
        body = None if record.body is None else orjson.loads(record.body)
        yield record._replace(body=body, attributes=orjson.loads(row[6]), resource={})


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


def sessions_with_logs(store: Store, after: int, upto: int) -> set[str]:
    """Return the ids of the sessions that got session logs after an arrival and up to another."""
    found = store.query(_session_logs(), {"seq": after, "last": upto})
    return {session_id for session_id, *_ in found}


def logged(store: Store, session_ids: Iterable[str], *, in_runs: bool = True) -> dict[str, Logged]:
    """Return what session logs, and pytest, recorded of sessions; those of which neither did are left out.

    Whether pytest did is looked for `in_runs`.
    """
    wanted = arrow_column("session_id", list(session_ids))
    rows = store.query(
        f"SELECT * FROM ({_session_logs()}) SEMI JOIN wanted USING (session_id) ORDER BY ALL",  # noqa: S608 (our own text)
        {"seq": 0, "last": _NEWEST},
        wanted=wanted,
    )
    state: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    apps: dict[str, str] = {}
    for session_id, time_ns, text, app in rows:
        value = None if text is None else orjson.loads(text)
        if isinstance(value, dict):
            state.setdefault(session_id, []).append((time_ns, value))
        if app:
            apps[session_id] = app
    scores = session_evaluations(store, wanted)
    query = with_views(statement("tested", "spangrade.evaluator.derive.sync.sql"))
    tested = {session_id for (session_id,) in store.query(query, wanted=wanted)} if in_runs else set[str]()
    return {
        one: Logged(state.get(one, ()), scores.get(one, ()), apps.get(one), one in tested)
        for one in {*state, *scores, *apps, *tested}
    }


def _session_logs() -> str:
    return statement("session_logs", "spangrade.evaluator.derive.sync.sql")
