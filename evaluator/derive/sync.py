"""Bringing what is derived up to date with what arrived.

Only the sessions that new spans or logs belong to are derived, whole, from all their spans: late spans,
spans of one trace in several files and a session that goes on for days need no rules of their own. Work
goes in slices, so memory does not grow with the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import nanoarrow as na

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.build_session import session_of
from spangrade.evaluator.derive.fingerprint import fingerprint
from spangrade.evaluator.derive.link_traces import link_traces, position_of
from spangrade.evaluator.derive.not_understood import counted
from spangrade.evaluator.derive.recorded import TraceRange, logged_state, observations_of, sessions_with_logs
from spangrade.evaluator.derive.schema import TABLES, comment_statements, create_statements
from spangrade.evaluator.derive.session_rows import Row, rows_of
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.session import Session
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows, sql_types
from spangrade.tracer.store.sql import statement
from spangrade.tracer.store.untrusted import table_problem

SLICE = 16_384  # spans; what is kept of them while their sessions are built is some 20 MB

_TEXT, _INTEGER = na.string(), na.int64()
_ARROW_TYPES = {name: table.arrow_types for name, table in TABLES.items()} | {
    "traces": {
        "trace_id": _TEXT,
        "first_seq": _INTEGER,
        "last_seq": _INTEGER,
        "session_id": _TEXT,
        "start_ns": _INTEGER,
        "history": _TEXT,
        "request": _TEXT,
    },
    "digests": {"session_id": _TEXT, "trace_id": _TEXT, "start_ns": _INTEGER, "digest": _TEXT},
    "not_understood": {"session_id": _TEXT, "trace_id": _TEXT, "scope": _TEXT, "spans": _INTEGER},
}
_COLUMNS = {"progress": {"fingerprint": "VARCHAR", "seq": "BIGINT"}} | {
    name: sql_types(types) for name, types in _ARROW_TYPES.items()
}


def update(store: Store) -> int:
    """Derive the sessions that new spans or logs belong to; return how many there were.

    All of them are derived again if the derived tables are missing or were derived in another way
    (`fingerprint`). A second call with nothing new does nothing. After an interruption it continues where it
    stopped: sessions are replaced in one transaction per slice.
    """
    done = _derived_up_to(store)
    if done is None:
        _create(store)
        done = 0
    newest = _newest(store)
    if newest <= done:
        return 0
    derived: set[str] = set()
    pending = store.query(_sql("pending"), {"seq": done})
    logged = sessions_with_logs(store, after=done)
    for traces in _slices(pending):
        derived |= _derive(store, traces, set())
    if logged - derived:
        derived |= _derive(store, [], logged - derived)
    store.query("UPDATE derived.progress SET seq = $seq", {"seq": newest})
    return len(derived)


def rebuild(store: Store) -> int:
    """Derive every session again from the spans; return how many there are."""
    _create(store)
    return update(store)


def stale(store: Store) -> bool:
    """Return whether `update` has something to do: new spans or logs, or all that is to be derived again."""
    done = _derived_up_to(store)
    return done is None or _newest(store) > done


def _derived_up_to(store: Store) -> int | None:
    """Return the last arrival that is derived; None if all is to be derived again."""
    if table_problem(store.connection, "derived", _COLUMNS):  # nothing, or of another version
        return None
    rows = store.query(
        "SELECT seq FROM derived.progress WHERE fingerprint = $fingerprint", {"fingerprint": fingerprint()}
    )
    return int(rows[0][0]) if rows else None


def _newest(store: Store) -> int:
    """Return the newest arrival, 0 if nothing has arrived."""
    newest = "SELECT greatest((SELECT max(seq) FROM spans), (SELECT max(seq) FROM logs))"
    return _scalar(store, newest) or 0


def _create(store: Store) -> None:
    """Create the derived tables, empty, and their views, in place of any that are there."""
    with store.transaction():
        store.query("DROP SCHEMA IF EXISTS derived CASCADE")
        store.query("CREATE SCHEMA derived")
        for name in ("progress", "traces", "digests", "not_understood"):
            store.query(_sql(name))
        store.query(";\n".join(create_statements()))
        store.query(_sql("state_variables"))
        store.query(";\n".join(comment_statements()))  # 10 ms at once, 50 ms one by one
        store.query("INSERT INTO derived.progress VALUES ($fingerprint, 0)", {"fingerprint": fingerprint()})


def _slices(pending: Iterable[tuple[str, int, int, int]]) -> Iterator[list[TraceRange]]:
    traces: list[TraceRange] = []
    size = 0
    for trace_id, first_seq, last_seq, records in pending:
        if traces and size + records > SLICE:
            yield traces
            traces, size = [], 0
        traces.append(TraceRange(trace_id, first_seq, last_seq))
        size += records
    if traces:
        yield traces


def _derive(store: Store, new_traces: Sequence[TraceRange], logged: set[str]) -> set[str]:
    """Derive the sessions of some traces, and the sessions `logged` (ids); return their ids."""
    known = _known_traces(store, [trace.trace_id for trace in new_traces], "trace_id")
    trace_ranges = {trace.trace_id: trace for trace in new_traces}
    for trace_id, _, first_seq, last_seq in known:
        new = trace_ranges[trace_id]
        first_seq, last_seq = min(first_seq, new.first_seq), max(last_seq, new.last_seq)
        trace_ranges[trace_id] = TraceRange(trace_id, first_seq, last_seq)
    by_trace = observations_of(store, list(trace_ranges.values()))
    session_by_trace = {trace_id: _session_id(trace_id, found) for trace_id, found in by_trace.items()}
    links = link_traces(store, {trace_id: position_of(found) for trace_id, found in by_trace.items()})
    session_by_trace |= {trace_id: links[trace_id] for trace_id in session_by_trace.keys() & links.keys()}

    affected_sessions = logged | {*session_by_trace.values(), *links.values()}
    affected_sessions |= {session_id for _, session_id, _, _ in known}
    moved = [trace_id for trace_id in links if trace_id not in session_by_trace]
    affected_sessions |= {session_id for _, session_id, _, _ in _known_traces(store, moved, "trace_id")}
    others = [
        (TraceRange(trace_id, first_seq, last_seq), links.get(trace_id, session_id))
        for trace_id, session_id, first_seq, last_seq in _known_traces(
            store, list(affected_sessions), "session_id"
        )
        if trace_id not in trace_ranges
    ]
    by_trace |= observations_of(store, [trace for trace, _ in others])
    session_by_trace |= {trace.trace_id: session_id for trace, session_id in others}
    trace_ranges |= {trace.trace_id: trace for trace, _ in others}

    by_session: dict[str, list[Observation]] = {}
    for trace_id, session_id in session_by_trace.items():
        by_session.setdefault(session_id, []).extend(by_trace.get(trace_id, ()))
    # A trace without an agent's work (a web server's, the creation of an agent) is not a session.
    by_session = {
        session_id: found
        for session_id, found in by_session.items()
        if any(o.kind != "other" or o.unreadable for o in found)
    }
    state = logged_state(store, by_session)
    sessions = [
        session_of(
            session_id,
            "trace" if session_id in by_trace else "conversation",
            observations,
            state.get(session_id, ()),
        )
        for session_id, observations in by_session.items()
    ]
    traces, digests = _trace_rows(trace_ranges, session_by_trace, by_trace)
    other_rows = {
        "traces": traces,
        "digests": digests,
        "not_understood": list(counted(by_trace, session_by_trace)),
    }
    replaces = bool(known) or bool(others)
    _write(store, sessions, other_rows, affected_sessions if replaces else set())
    return set(by_session)


def _trace_rows(
    trace_ranges: Mapping[str, TraceRange],
    session_by_trace: Mapping[str, str],
    by_trace: Mapping[str, Sequence[Observation]],
) -> tuple[list[Row], list[Row]]:
    """Return the rows of `derived.traces` and of `derived.digests`."""
    traces: list[Row] = []
    digests: list[Row] = []
    for trace_id, session_id in session_by_trace.items():
        position = position_of(by_trace[trace_id])
        place = (session_id, position.start_ns, position.history, position.request)
        traces.append((*trace_ranges[trace_id], *place))
        digests += [(session_id, trace_id, position.start_ns, key) for key in sorted(position.digests)]
    return traces, digests


def _session_id(trace_id: str, observations: Iterable[Observation]) -> str:
    """Return the id of the session that a trace belongs to: the conversation id nearest the trace's root.

    A sub-agent that is run as a tool may carry an id of its own. A trace without any is its own session.
    """
    ids = {o.conversation_id for o in observations if o.conversation_id}
    if len(ids) == 1:
        return ids.pop()
    if not ids:
        return trace_id
    tree = Tree(observations)
    with_id = [o for o in tree.ordered if o.conversation_id]
    return min(with_id, key=tree.depth).conversation_id or trace_id


def _known_traces(store: Store, values: Sequence[str], column: str) -> list[tuple[str, str, int, int]]:
    return store.query(
        "SELECT trace_id, session_id, first_seq, last_seq FROM derived.traces "  # noqa: S608 (our own names)
        f"SEMI JOIN wanted USING ({column})",
        wanted=arrow_column(column, values),
    )


def _write(
    store: Store,
    sessions: Sequence[Session],
    other_rows: dict[str, list[Row]],
    replaced: set[str],
) -> None:
    """Write sessions and the rows of their traces, by table, in place of the `replaced` sessions (ids)."""
    batch = (_scalar(store, "SELECT max(batch) FROM derived.sessions") or 0) + 1
    rows = rows_of(sessions, batch) | other_rows
    with store.transaction():
        for table, new in rows.items():
            if replaced:
                store.query(
                    f"DELETE FROM derived.{table} WHERE session_id IN (FROM gone)",  # noqa: S608 (our own names)
                    gone=arrow_column("session_id", list(replaced)),
                )
            if new:
                store.query(
                    f"INSERT INTO derived.{table} BY NAME FROM incoming",
                    incoming=arrow_rows(new, _ARROW_TYPES[table]),
                )


def _scalar(store: Store, query: str) -> int | None:
    rows = store.query(query)
    return rows[0][0] if rows else None


def _sql(name: str) -> str:
    return statement(name, "spangrade.evaluator.derive.sql")
