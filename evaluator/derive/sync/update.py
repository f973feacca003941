"""Bringing what is derived up to date with what arrived.

Only the sessions that new spans or logs belong to are derived, whole, from all their spans: late spans,
spans of one trace in several files and a session that goes on for days need no rules of their own.

There are two passes. The first reads each new trace once, in slices, and writes the sessions that are whole
in their slice. The sessions that other spans belong to as well are noted (`derived.read_again`); the second
pass derives each of them once. Each slice is one transaction, after which the work can stop and continue in
another process. Memory does not grow with the database.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import nanoarrow as na

from spangrade.evaluator.derive.evaluations import delete_scores, save_scores
from spangrade.evaluator.derive.schema import TABLES, comment_statements, create_statements
from spangrade.evaluator.derive.session_rows import Row
from spangrade.evaluator.derive.settings import NO_SETTINGS, Settings, settings_of
from spangrade.evaluator.derive.sync.affected import Affected, affected_by
from spangrade.evaluator.derive.sync.batches import batches
from spangrade.evaluator.derive.sync.fingerprint import fingerprint
from spangrade.evaluator.derive.sync.kept import Kept
from spangrade.evaluator.derive.sync.portion import (
    Place,
    Portion,
    compact,
    portion_of,
    portion_of_sessions,
)
from spangrade.evaluator.derive.sync.read_again import complete_sessions, noted_groups
from spangrade.evaluator.derive.sync.recorded import (
    StoredRows,
    TraceRange,
    logs_of,
    sessions_with_logs,
    spans_of,
    stored_rows,
)
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows, joined, sql_types
from spangrade.tracer.store.sql import statement
from spangrade.tracer.store.untrusted import column_types, table_problem

SLICE = 8_192  # spans; what is kept of them while their sessions are built is some 10 MB

# As the built-in `map`.
InOrder = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

_TEXT, _INTEGER = na.string(), na.int64()
# The tables with rows of traces.
_OF_TRACES = {
    "traces": {
        "trace_id": _TEXT,
        "first_seq": _INTEGER,
        "last_seq": _INTEGER,
        "records": _INTEGER,
        "session_id": _TEXT,
        "start_ns": _INTEGER,
        "history": _TEXT,
        "request": _TEXT,
        "conversation_id": _TEXT,
        "leader": _TEXT,
    },
    "keyed_calls": {
        "session_id": _TEXT,
        "trace_id": _TEXT,
        "call_key": _TEXT,
        "scope": _TEXT,
        "start_ns": _INTEGER,
        "end_ns": _INTEGER,
        "output_tokens": _INTEGER,
    },
    "digests": {"session_id": _TEXT, "trace_id": _TEXT, "start_ns": _INTEGER, "digest": _TEXT},
    "not_understood": {"session_id": _TEXT, "trace_id": _TEXT, "scope": _TEXT, "spans": _INTEGER},
}
_MOVED = {"trace_id": _TEXT, "session_id": _TEXT}
_LEADERS = {"trace_id": _TEXT, "leader": _TEXT}
_COLUMNS = {
    "progress": {"fingerprint": "VARCHAR", "seq": "BIGINT"},
    "read_again": {"session_id": "VARCHAR"},
    **{name: sql_types(types) for name, types in _OF_TRACES.items()},
    **{name: sql_types(table.arrow_types) for name, table in TABLES.items()},
}


class PendingTrace(NamedTuple):
    """A trace with new spans or logs: how many of them, and where all its records are, known ones too."""

    trace_id: str
    first_seq: int
    last_seq: int
    records: int
    is_known: bool

    @property
    def range(self) -> TraceRange:
        """The place of its records in the order of arrival."""
        return TraceRange(self.trace_id, self.first_seq, self.last_seq)


def update(store: Store) -> int:
    """Derive the sessions that new spans or logs belong to; return how many there were.

    All of them are derived again if the derived tables are missing or were derived in another way
    (`fingerprint`). A second call with nothing new does nothing. After an interruption it continues where it
    stopped.
    """
    return len(set().union(*steps(store)))


def rebuild(store: Store) -> int:
    """Derive every session again from the spans; return how many there are."""
    forget(store)
    return update(store)


def stale(store: Store) -> bool:
    """Return whether `update` has something to do: new spans or logs, or all that is to be derived again."""
    done = _derived_up_to(store)
    return done is None or _newest(store) > done or bool(store.query("FROM derived.read_again LIMIT 1"))


def steps(
    store: Store, in_order: InOrder = map, until_s: float = math.inf, kept: Kept | None = None
) -> Iterator[set[str]]:
    """Do what `update` does in steps, each a transaction, and yield the ids of the sessions of each.

    It can be left after any step, and does not start another one when `time.monotonic()` is past `until_s`;
    another call continues there, and `stale` returns whether one is needed. `in_order` calls a function for
    each of some arguments, perhaps in other processes, and yields the results in order. `kept` holds what
    earlier steps kept.
    """
    kept = Kept() if kept is None else kept
    yield from derive_new(store, (), in_order, until_s, kept)
    if _newest(store) > (_derived_up_to(store) or 0):
        return
    noted = list(noted_groups(store))
    for session_ids, portion in zip(
        noted, in_order(portion_of_sessions, complete_sessions(store, noted, kept, until_s)), strict=False
    ):
        _replace_sessions(store, session_ids, portion)
        yield set(portion.session_ids)


def derive_new(
    store: Store,
    portions: Sequence[Portion] = (),
    in_order: InOrder = map,
    until_s: float = math.inf,
    kept: Kept | None = None,
) -> Iterator[set[str]]:
    """Derive the sessions that are whole in new traces; note the others that these belong to.

    `portions` are what new records come to by the settings of the database: their spans are not read. Yields
    the ids of the sessions of each step; for the other arguments see `steps`.
    """
    kept = Kept(0) if kept is None else kept
    done = _derived_up_to(store)
    if done is None:
        forget(store)
        done = 0
    newest = _newest(store)
    if newest <= done:
        return
    pending = {row[0]: PendingTrace(*row) for row in store.query(_sql("pending"), {"seq": done})}
    _note(store, sessions_with_logs(store, after=done))
    if portions:
        yield _keep_fresh(store, portions, pending, kept)
    slices = list(batches(pending.values(), lambda trace: trace.records, SLICE))
    read = 0
    for portion in in_order(portion_of_rows, _jobs(store, slices, until_s)):
        yield _keep(store, [portion], portion.places, pending, kept)
        read += 1
    if read == len(slices):
        store.query("UPDATE derived.progress SET seq = $seq", {"seq": newest})


def pending_spans(store: Store) -> int:
    """Return how many spans arrived since the last derivation."""
    done = _derived_up_to(store) or 0
    return _scalar(store, f"SELECT count(*) FROM spans WHERE seq > {done}") or 0  # noqa: S608 (a number)


def records_left(store: Store) -> int:
    """Return about how many spans and logs the remaining steps read; new ones may be read twice."""
    pending = store.query(_sql("pending"), {"seq": _derived_up_to(store) or 0})
    waiting = store.query(_sql("noted"))
    return 2 * sum(int(PendingTrace(*row).records) for row in pending) + sum(int(row[1]) for row in waiting)


def noted(store: Store) -> frozenset[str]:
    """Return the ids of the sessions that must be read again."""
    return frozenset(session_id for (session_id,) in store.query("FROM derived.read_again"))


def count_sessions(store: Store) -> int:
    """Return the number of derived sessions, 0 in a database in which nothing was derived yet."""
    if column_types(store.connection, "sessions", "derived") is None:
        return 0
    return int(store.query("SELECT count(*) FROM derived.sessions")[0][0])


def forget(store: Store) -> None:
    """Create the derived tables, empty, and their views, in place of any that are there."""
    with store.transaction():
        store.query("DROP SCHEMA IF EXISTS derived CASCADE")
        delete_scores(store)
        store.query("CREATE SCHEMA derived")
        for name in ("progress", "read_again", *_OF_TRACES):
            store.query(_sql(name))
        store.query(";\n".join(create_statements()))
        store.query(_sql("state_variables"))
        store.query(";\n".join(comment_statements()))  # 10 ms at once, 50 ms one by one
        store.query("INSERT INTO derived.progress VALUES ($fingerprint, 0)", {"fingerprint": fingerprint()})
    store.checked.add("derived")


def _derived_up_to(store: Store) -> int | None:
    """Return the last arrival that is derived; None if all is to be derived again."""
    if "derived" not in store.checked:
        if table_problem(store.connection, "derived", _COLUMNS):  # nothing, or of another version
            return None
        store.checked.add("derived")
    rows = store.query(
        "SELECT seq FROM derived.progress WHERE fingerprint = $fingerprint", {"fingerprint": fingerprint()}
    )
    return int(rows[0][0]) if rows else None


def _newest(store: Store) -> int:
    """Return the newest arrival, 0 if nothing has arrived."""
    newest = "SELECT greatest((SELECT max(seq) FROM spans), (SELECT max(seq) FROM logs))"
    return _scalar(store, newest) or 0


def _jobs(
    store: Store, slices: Sequence[Sequence[PendingTrace]], until_s: float
) -> Iterator[tuple[StoredRows, Settings, frozenset[str]]]:
    """Yield the rows of slices, at least of one, until a time; with the sessions that need not be built."""
    settings = settings_of(store) if slices else NO_SETTINGS
    for traces in slices:
        rows = stored_rows(store, [trace.range for trace in traces])
        yield rows._replace(spans=list(rows.spans)), settings, noted(store)  # for another process
        if time.monotonic() >= until_s:
            return


def portion_of_rows(job: tuple[StoredRows, Settings, frozenset[str]]) -> Portion:
    """Return what rows of the database come to, without some sessions."""
    rows, settings, without = job
    return compact(portion_of(spans_of(rows.spans), logs_of(rows.logs), settings, without), without)


def _keep_fresh(
    store: Store, portions: Sequence[Portion], pending: dict[str, PendingTrace], kept: Kept
) -> set[str]:
    """Keep what portions show of the traces that one of them has whole, which are not pending then."""
    fresh, others = [], set()
    portion_by_session: dict[str, Portion] = {}
    for portion in portions:
        for place in portion.places:
            trace = pending.get(place.trace_id)
            if trace and not trace.is_known and trace.records == place.records:
                fresh.append(place)
            else:
                others.add(place.session_id)
            if portion_by_session.setdefault(place.session_id, portion) is not portion:
                others.add(place.session_id)
    derived = _keep(store, portions, fresh, pending, kept, others)
    for place in fresh:
        del pending[place.trace_id]
    return derived


def _keep(
    store: Store,
    portions: Sequence[Portion],
    places: Sequence[Place],
    pending: Mapping[str, PendingTrace],
    kept: Kept,
    shared: Iterable[str] = (),
) -> set[str]:
    """Write the sessions that a portion has whole, and where traces belong; return the sessions' ids.

    `places` are the traces that a portion has whole, `shared` the sessions that others belong to too.
    """
    affected = affected_by(store, places, shared)
    with store.transaction():
        write_traces(store, places, affected, pending)
        _note(store, affected.read_again)
        insert_sessions(store, portions, affected.read_again)
    contents = {trace_id: content for portion in portions for trace_id, content in portion.kept.items()}
    for trace_id, _, records, *_ in places:
        content = contents.get(trace_id)
        if content is not None and affected.session_by_trace[trace_id] in affected.read_again:
            kept.add(pending[trace_id].range, records, portions[0].settings, content)
    return {one for portion in portions for one in portion.session_ids} - affected.read_again


def write_traces(
    store: Store, places: Sequence[Place], affected: Affected, pending: Mapping[str, PendingTrace]
) -> None:
    """Write where traces belong, within the caller's transaction; move the stored ones that they affect."""
    rows_by_table = _trace_rows(places, affected, pending)
    known = [place.trace_id for place in places if pending[place.trace_id].is_known]
    for table, rows in rows_by_table.items():
        if known:
            store.query(
                f"DELETE FROM derived.{table} WHERE trace_id IN (FROM known)",  # noqa: S608 (our own names)
                known=arrow_column("trace_id", known),
            )
        if rows:
            store.query(
                f"INSERT INTO derived.{table} BY NAME FROM incoming",
                incoming=arrow_rows(rows, _OF_TRACES[table]),
            )
        if affected.moved:
            store.query(
                f"UPDATE derived.{table} SET session_id = moved.session_id FROM moved "  # noqa: S608 (our own names)
                f"WHERE {table}.trace_id = moved.trace_id",
                moved=arrow_rows(list(affected.moved.items()), _MOVED),
            )
    if regrouped := [item for item in affected.leaders.items() if item[0] not in affected.session_by_trace]:
        store.query(
            "UPDATE derived.traces SET leader = regrouped.leader FROM regrouped "
            "WHERE traces.trace_id = regrouped.trace_id",
            regrouped=arrow_rows(regrouped, _LEADERS),
        )


def _trace_rows(
    places: Iterable[Place], affected: Affected, pending: Mapping[str, PendingTrace]
) -> dict[str, list[Row]]:
    """Return the rows of traces, by table."""
    rows: dict[str, list[Row]] = {table: [] for table in _OF_TRACES}
    for trace_id, _, records, position, not_understood in places:
        session_id = affected.session_by_trace[trace_id]
        place = (session_id, position.start_ns, position.history, position.request)
        named = (position.conversation_id, affected.leaders[trace_id])
        rows["traces"].append((*pending[trace_id].range, records, *place, *named))
        rows["keyed_calls"] += [(session_id, trace_id, *call) for call in sorted(position.calls, key=str)]
        rows["digests"] += [
            (session_id, trace_id, position.start_ns, digest) for digest in sorted(position.digests)
        ]
        rows["not_understood"] += [(session_id, trace_id, *counts) for counts in not_understood]
    return rows


def _note(store: Store, session_ids: Iterable[str]) -> None:
    """Note sessions to be read again."""
    if ids := sorted(session_ids):
        store.query("INSERT INTO derived.read_again FROM noted", noted=arrow_column("session_id", ids))


def insert_sessions(store: Store, portions: Sequence[Portion], without: Iterable[str] = ()) -> None:
    """Write the sessions of portions, except some."""
    batch = (_scalar(store, "SELECT max(batch) FROM derived.sessions") or 0) + 1
    session_ids = {one for portion in portions for one in portion.session_ids}
    others = sorted(session_ids.intersection(without))
    for table in (table for table in TABLES if any(table in portion.rows for portion in portions)):
        parts = [portion.rows[table] for portion in portions if table in portion.rows]
        query = f"INSERT INTO derived.{table} BY NAME SELECT * REPLACE ($batch AS batch) FROM incoming"  # noqa: S608 (our own names)
        tables = {"incoming": joined(parts)}
        if others:
            query += " ANTI JOIN others USING (session_id)"
            tables["others"] = arrow_column("session_id", others)
        store.query(query, {"batch": batch}, **tables)
    if any("recorded_scores" in portion.rows for portion in portions):
        save_scores(store, session_ids.difference(others))


def _replace_sessions(store: Store, session_ids: Sequence[str], portion: Portion) -> None:
    """Write noted sessions anew; those that are not sessions any more are removed."""
    wanted = arrow_column("session_id", session_ids)
    with store.transaction():
        delete_scores(store, session_ids)
        for table in (*TABLES, "read_again"):
            store.query(
                f"DELETE FROM derived.{table} WHERE session_id IN (FROM wanted)",  # noqa: S608 (our own names)
                wanted=wanted,
            )
        insert_sessions(store, [portion])


def _scalar(store: Store, query: str) -> int | None:
    rows = store.query(query)
    return rows[0][0] if rows else None


def _sql(name: str) -> str:
    return statement(name, "spangrade.evaluator.derive.sync.sql")
