"""Reading the records of sessions from the store: spans, their logs, state in logs, one span at its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import nanoarrow as na
import orjson
from duckdb import DuckDBPyConnection

from spangrade.evaluator.derive.build_session import Logged
from spangrade.evaluator.derive.evaluations import session_evaluations
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.session import LLMCall, Session, Step
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows
from spangrade.tracer.store.sql import statement

_FETCH = 1_024
_ROW_BYTES = 1_000  # of a span in memory, without its longest texts
_NEWEST = 2**63 - 1  # no arrival is later
# What another process gets at once: some 15 MB of spans with messages.
AT_ONCE = 8_192  # rows

Row = tuple[Any, ...]
Place = tuple[str, str | None]  # the (trace id, span id) of a span


class TraceRange(NamedTuple):
    """Where the spans and logs of one trace are in the order of arrival."""

    trace_id: str
    first_seq: int
    last_seq: int


class StoredRows(NamedTuple):
    """Rows as the tables hold them: spans, in batches, and logs."""

    spans: Iterable[Sequence[Row]]
    logs: Sequence[Row]


def stored_rows(store: Store, traces: Sequence[TraceRange]) -> StoredRows:
    """Return the rows of traces. Spans are read a thousand at a time: take them before the next query."""
    if not traces:
        return StoredRows((), ())
    logs = _select(store, "logs", LogRecord._fields, traces).fetchall()
    return StoredRows(_batches(store, traces), logs)


def trace_sizes(store: Store, traces: Sequence[TraceRange]) -> dict[str, int]:
    """Return about how many bytes of memory the rows of each trace take."""
    columns = ("trace_id", f"sum({_ROW_BYTES} + strlen(attributes) + strlen(events))::BIGINT")
    return dict(_select(store, "spans", columns, traces, "GROUP BY trace_id").fetchall()) if traces else {}


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
    store: Store, table: str, columns: Sequence[str], traces: Sequence[TraceRange], grouped: str = ""
) -> DuckDBPyConnection:
    """Start to read the rows of traces; they are not all in memory at once."""
    wanted = arrow_column("trace_id", [trace.trace_id for trace in traces])
    store.query("CREATE OR REPLACE TEMP TABLE sought AS FROM incoming", incoming=wanted)
    return store.connection.execute(
        f"SELECT {', '.join(columns)} FROM {table} SEMI JOIN sought USING (trace_id) "  # noqa: S608 (our own names)
        f"WHERE seq BETWEEN $first AND $last {grouped}",
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


def place_of(session: Session) -> Place | None:
    """Return the span of the first model call or, without one, of the first step."""
    steps: tuple[LLMCall | Step, ...] = (*session.llm_calls, *session.trajectory)
    return next(((step.trace_id, step.span_id) for step in steps if step.span_id), None)


def spans_at(store: Store, places: Iterable[Place]) -> Mapping[Place, Span]:
    """Return spans by their places, with the columns that identify their instrumentation."""
    rows = sorted((trace_id, span_id) for trace_id, span_id in places if span_id)
    wanted = arrow_rows(rows, {"trace_id": na.string(), "span_id": na.string()})
    ((first, last),) = store.query(
        "SELECT min(first_seq), max(last_seq) FROM derived.traces SEMI JOIN wanted USING (trace_id)",
        wanted=wanted,
    )
    found = store.query(
        "SELECT trace_id, span_id, name, scope_name, attributes FROM spans "
        "SEMI JOIN wanted USING (trace_id, span_id) WHERE seq BETWEEN $first AND $last",
        {"first": first, "last": last},
        wanted=wanted,
    )
    return {
        (trace_id, span_id): Span(
            trace_id,
            span_id,
            None,
            name,
            "INTERNAL",
            0,
            0,
            attributes=orjson.loads(attributes),
            scope_name=scope,
        )
        for trace_id, span_id, name, scope, attributes in found
    }
