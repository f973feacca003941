"""Bringing what is derived up to date with what came in.

Only the sessions that new spans or logs belong to are derived, whole, from all their spans: late spans,
spans of one trace in several files and a session that goes on for days need no rules of their own. Work
goes in slices, so that memory does not grow with the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from duckdb import DuckDBPyConnection

from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.derive.link_traces import linked, place_of
from spangrade.evaluator.derive.schema import REACHED, TABLES, TRACES, Row, rows_of
from spangrade.evaluator.derive.session_from import own_id, session_from, with_own_ids
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.session import Session
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows
from spangrade.tracer.store.sql import statement

RULES = 7  # raised with every change of a derivation rule: databases derived by older ones are derived again

SLICE = 16_384  # spans; what is kept of them while their sessions are assembled is some 20 MB
_FETCH = 1_024


class Trace(NamedTuple):
    """Where the spans and logs of one trace stand in the order of arrival."""

    trace_id: str
    first_seq: int
    last_seq: int


def update(store: Store) -> int:
    """Derive the sessions that new spans or logs belong to; return how many there were.

    A second call with nothing new does nothing. Interrupted, it starts again where it stood: sessions are
    replaced in one transaction a slice.
    """
    done = _done(store)
    if done is None:
        _create(store)
        done = 0
    newest = _newest(store)
    if newest <= done:
        return 0
    derived: set[str] = set()
    pending = store.query(_sql("pending"), {"seq": done})
    told = _told(store, after=done)
    for traces in _slices(pending):
        derived |= _derive(store, traces, set())
    if told - derived:
        derived |= _derive(store, [], told - derived)
    store.query("UPDATE derived.progress SET seq = $seq", {"seq": newest})
    return len(derived)


def rebuild(store: Store) -> int:
    """Derive everything again from the spans; return how many sessions there are."""
    _create(store)
    return update(store)


def stale(store: Store) -> bool:
    """Tell whether the derived tables are missing, of other rules, or behind what came in."""
    done = _done(store)
    return done is None or _newest(store) > done


def _done(store: Store) -> int | None:
    """Return the arrival up to which is derived; None if nothing is, or by other rules."""
    if not _scalar(store, "SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'derived'"):
        return None
    rows = store.query("SELECT seq FROM derived.progress WHERE rules = $rules", {"rules": RULES})
    return int(rows[0][0]) if rows else None


def _newest(store: Store) -> int:
    """Return the newest arrival, 0 if nothing has come in."""
    newest = "SELECT greatest((SELECT max(seq) FROM spans), (SELECT max(seq) FROM logs))"
    return _scalar(store, newest) or 0


def _create(store: Store) -> None:
    with store.transaction():
        store.query(_sql("tables"))
        store.query("INSERT INTO derived.progress VALUES ($rules, 0)", {"rules": RULES})
        store.query(_sql("views"))


def _slices(pending: Iterable[tuple[str, int, int, int]]) -> Iterator[list[Trace]]:
    traces: list[Trace] = []
    size = 0
    for trace_id, first_seq, last_seq, records in pending:
        if traces and size + records > SLICE:
            yield traces
            traces, size = [], 0
        traces.append(Trace(trace_id, first_seq, last_seq))
        size += records
    if traces:
        yield traces


def _derive(store: Store, fresh: Sequence[Trace], told: set[str]) -> set[str]:
    """Derive the sessions of some traces, and those of the ids in `told`; return their ids."""
    known = _known(store, [trace.trace_id for trace in fresh], "trace_id")
    spread = {trace.trace_id: trace for trace in fresh}
    for trace_id, _, first_seq, last_seq in known:
        new = spread[trace_id]
        spread[trace_id] = Trace(trace_id, min(first_seq, new.first_seq), max(last_seq, new.last_seq))
    by_trace = _observations(store, list(spread.values()))
    belongs = {trace_id: session_of(trace_id, seen) for trace_id, seen in by_trace.items()}
    links = linked(store, {trace_id: place_of(seen) for trace_id, seen in by_trace.items()})
    belongs |= {trace_id: links[trace_id] for trace_id in belongs.keys() & links.keys()}

    touched = told | {*belongs.values(), *links.values()} | {session_id for _, session_id, _, _ in known}
    moved = [trace_id for trace_id in links if trace_id not in belongs]
    touched |= {session_id for _, session_id, _, _ in _known(store, moved, "trace_id")}
    others = [
        (Trace(trace_id, first_seq, last_seq), links.get(trace_id, session_id))
        for trace_id, session_id, first_seq, last_seq in _known(store, list(touched), "session_id")
        if trace_id not in spread
    ]
    by_trace |= _observations(store, [trace for trace, _ in others])
    belongs |= {trace.trace_id: session_id for trace, session_id in others}
    spread |= {trace.trace_id: trace for trace, _ in others}

    by_session: dict[str, list[Observation]] = {}
    for trace_id, session_id in belongs.items():
        by_session.setdefault(session_id, []).extend(by_trace.get(trace_id, ()))
    # A trace that tells nothing of an agent (a web server's, the making of an agent) is no session.
    by_session = {s: seen for s, seen in by_session.items() if any(o.kind != "other" for o in seen)}
    state = _state(store, by_session)
    sessions = [
        build_session(
            session_id,
            "trace" if session_id in by_trace else "conversation",
            seen,
            state.get(session_id, ()),
        )
        for session_id, seen in by_session.items()
    ]
    replaces = bool(known) or bool(others)
    _write(store, sessions, *_places(spread, belongs, by_trace), touched if replaces else set())
    return set(by_session)


def _places(
    spread: Mapping[str, Trace], belongs: Mapping[str, str], by_trace: Mapping[str, Sequence[Observation]]
) -> tuple[list[Row], list[Row]]:
    """Return the rows of `derived.traces` and of `derived.reached`."""
    traces: list[Row] = []
    reached: list[Row] = []
    for trace_id, session_id in belongs.items():
        place = place_of(by_trace[trace_id])
        traces.append((*spread[trace_id], session_id, place.start_ns, place.history, place.asked))
        reached += [(session_id, trace_id, place.start_ns, key) for key in sorted(place.reached)]
    return traces, reached


def session_of(trace_id: str, observations: Iterable[Observation]) -> str:
    """Return the id of the session that a trace belongs to.

    It is the conversation id nearest the trace's root: a sub-agent that is run as a tool may carry one of
    its own. A trace without one is a session of its own.
    """
    ids = {o.conversation_id for o in observations if o.conversation_id}
    if len(ids) == 1:
        return ids.pop()
    if not ids:
        return trace_id
    tree = Tree(observations)
    named = [o for o in tree.ordered if o.conversation_id]
    return min(named, key=tree.depth).conversation_id or trace_id


def _observations(store: Store, traces: Sequence[Trace]) -> dict[str, list[Observation]]:
    """Return the observations of traces, by trace; their spans are read and dropped a thousand at a time."""
    if not traces:
        return {}
    logs = _logs(store, traces)
    found: dict[str, list[Observation]] = {trace.trace_id: [] for trace in traces}
    attributes = session_from(store)
    ids: dict[str, dict[str, str]] = {}
    for spans in _spans(store, traces):
        for seen in observe(spans, logs):
            found[seen.trace_id].append(seen)
        for span in spans if attributes else ():
            if own := own_id(span, attributes):
                ids.setdefault(span.trace_id, {})[span.span_id] = own
    return found | {trace_id: with_own_ids(found[trace_id], own) for trace_id, own in ids.items()}


def _spans(store: Store, traces: Sequence[Trace]) -> Iterator[list[Span]]:
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


def _logs(store: Store, traces: Sequence[Trace]) -> Mapping[tuple[str, str], list[LogRecord]]:
    found: dict[tuple[str, str], list[LogRecord]] = {}
    for row in _select(store, "logs", LogRecord._fields, traces).fetchall():
        record = LogRecord._make(row)
        if record.trace_id and record.span_id:
            body = None if record.body is None else orjson.loads(record.body)
            read = record._replace(body=body, attributes=orjson.loads(row[6]), resource={})
            found.setdefault((record.trace_id, record.span_id), []).append(read)
    return found


def _select(store: Store, table: str, columns: Sequence[str], traces: Sequence[Trace]) -> DuckDBPyConnection:
    """Start to read the rows of traces; they are not all in memory at once."""
    wanted = arrow_column("trace_id", [trace.trace_id for trace in traces])
    store.query("CREATE OR REPLACE TEMP TABLE sought AS FROM incoming", incoming=wanted)
    return store.connection.execute(
        f"SELECT {', '.join(columns)} FROM {table} SEMI JOIN sought USING (trace_id) "  # noqa: S608 (our own names)
        "WHERE seq BETWEEN $first AND $last",
        {"first": min(t.first_seq for t in traces), "last": max(t.last_seq for t in traces)},
    )


def _known(store: Store, values: Sequence[str], column: str) -> list[tuple[str, str, int, int]]:
    return store.query(
        "SELECT trace_id, session_id, first_seq, last_seq FROM derived.traces "  # noqa: S608 (our own names)
        f"SEMI JOIN wanted USING ({column})",
        wanted=arrow_column(column, values),
    )


def _told(store: Store, after: int) -> set[str]:
    """Return the ids of the sessions that session logs came in for."""
    return {session_id for session_id, _, _ in store.query(_sql("session_logs"), {"seq": after})}


def _state(store: Store, session_ids: Iterable[str]) -> Mapping[str, list[tuple[int, Mapping[str, Any]]]]:
    """Return the state that session logs brought, by session, each with its time."""
    rows = store.query(
        f"SELECT * FROM ({_sql('session_logs')}) SEMI JOIN wanted USING (session_id)",  # noqa: S608 (our own text)
        {"seq": 0},
        wanted=arrow_column("session_id", list(session_ids)),
    )
    found: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for session_id, time_ns, text in rows:
        value = None if text is None else orjson.loads(text)
        if isinstance(value, dict):
            found.setdefault(session_id, []).append((time_ns, value))
    return found


def _write(
    store: Store,
    sessions: Sequence[Session],
    traces: Sequence[Row],
    reached: Sequence[Row],
    replaced: set[str],
) -> None:
    batch = (_scalar(store, "SELECT max(batch) FROM derived.sessions") or 0) + 1
    rows = {table: (found, TABLES[table]) for table, found in rows_of(sessions, batch).items()}
    rows |= {"traces": (list(traces), TRACES), "reached": (list(reached), REACHED)}
    with store.transaction():
        for table, (found, types) in rows.items():
            if replaced:
                store.query(
                    f"DELETE FROM derived.{table} WHERE session_id IN (FROM gone)",  # noqa: S608 (our own names)
                    gone=arrow_column("session_id", list(replaced)),
                )
            if found:
                store.query(
                    f"INSERT INTO derived.{table} BY NAME FROM incoming",
                    incoming=arrow_rows(found, types),
                )


def _scalar(store: Store, query: str) -> int | None:
    rows = store.query(query)
    return rows[0][0] if rows else None


def _sql(name: str) -> str:
    return statement(name, "spangrade.evaluator.derive.sql")
