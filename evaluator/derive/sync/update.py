"""Bringing derived sessions up to date with new spans: each is built once, from all its spans.

There are three phases. New records are observed: `Observations` holds the facts of their traces, and sessions
that could be built at once. Once all records are observed, the new traces are linked: the session of each and
the changed sessions are written. Then each changed session replaces its earlier state: as it was built at
once, if linking confirms that it has all its traces, else built from their observations.

A backlog goes through these phases in parts of `_DERIVED_AT_ONCE` records, one after the other, so that what
is held of it is bounded, and its first sessions are there before its last are read.

Each step of linking and building is one transaction, after which the work can stop and continue in another
process, which repeats the observations that it needs. So the database is open in short windows, between which
other processes can open it. Memory does not grow with the database.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import nanoarrow as na

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.evaluations import delete_scores
from spangrade.evaluator.derive.schema import TABLES, comment_statements, create_statements
from spangrade.evaluator.derive.session_rows import Row
from spangrade.evaluator.derive.settings import (
    NOT_CONFIGURED,
    Configured,
    Settings,
    apply,
    differs,
    settings_of,
)
from spangrade.evaluator.derive.sync.fingerprint import fingerprint
from spangrade.evaluator.derive.sync.link_traces import link_traces
from spangrade.evaluator.derive.sync.observations import Observations
from spangrade.evaluator.derive.sync.observed import (
    Observed,
    ObservedTrace,
    Trace,
    joined,
    observe_records,
    size_of,
)
from spangrade.evaluator.derive.sync.parts import in_batches
from spangrade.evaluator.derive.sync.recorded import (
    AT_ONCE,
    AT_ONCE_BYTES,
    StoredRows,
    TraceRange,
    arrived_rows,
    logged,
    logs_of,
    sessions_with_logs,
    spans_of,
    stored_rows,
)
from spangrade.evaluator.derive.sync.sessions import (
    BuiltSessions,
    Recorded,
    build_sessions,
    replace_sessions,
)
from spangrade.evaluator.derive.sync.workers import InOrder, few_collections
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows, sql_types
from spangrade.tracer.store.spool import drain, waiting
from spangrade.tracer.store.sql import statement
from spangrade.tracer.store.turns import turns_at
from spangrade.tracer.store.untrusted import column_types, table_problem

# Records of a backlog that are derived before the next ones are observed. A session with records in several
# such parts is built in each of them.
_DERIVED_AT_ONCE = 200_000
_LINKED_AT_ONCE = 4_096  # traces
# Of sessions that are built, or written, at once; a larger one is built alone.
_BUILT_AT_ONCE = 32_768  # records
_BUILT_AT_ONCE_BYTES = 48_000_000  # of observations in memory

# Rows, the settings of the database, and whether sessions follow one another (`observe_records`).
RowsJob = tuple[StoredRows, Settings, bool]

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
        "provider": _TEXT,
    },
    "digests": {"session_id": _TEXT, "trace_id": _TEXT, "start_ns": _INTEGER, "digest": _TEXT},
    "not_understood": {
        "session_id": _TEXT,
        "trace_id": _TEXT,
        "scope": _TEXT,
        "spans": _INTEGER,
        "tools": _INTEGER,
        "span_id": _TEXT,
    },
}
_MOVED = {"trace_id": _TEXT, "session_id": _TEXT}
_LEADERS = {"trace_id": _TEXT, "leader": _TEXT}
_COLUMNS = {
    "progress": {"fingerprint": "VARCHAR", "seq": "BIGINT"},
    "steps": {"number": "BIGINT"},
    "changed": {"session_id": "VARCHAR"},
    **{name: sql_types(types) for name, types in _OF_TRACES.items()},
    **{name: sql_types(table.arrow_types) for name, table in TABLES.items()},
}


class StoredTrace(NamedTuple):
    """Where the records of a trace are in the order of arrival, about how many, and if it was derived."""

    range: TraceRange
    records: int
    is_known: bool


class LinkedTraces(NamedTuple):
    """The sessions of new traces, and those of derived ones that move.

    `leaders` are the traces whose calls others repeat, by trace, of new traces and of derived ones.
    """

    session_by_trace: Mapping[str, str]
    moved: Mapping[str, str]
    leaders: Mapping[str, str | None]


def update(store: Store) -> int:
    """Derive the sessions that new spans or logs belong to; return how many there were.

    All of them are derived again if the derived tables are missing or were derived in another way
    (`fingerprint`). A second call with nothing new does nothing. After an interruption it continues where it
    stopped.
    """
    return len(set().union(*steps(store, Observations())))


def stale(store: Store) -> bool:
    """Return whether `update` has something to do: new spans or logs, or all that is to be derived again."""
    done = derived_up_to(store)
    return done is None or newest(store) > done or bool(store.query("FROM derived.changed LIMIT 1"))


def steps(
    store: Store, observations: Observations, in_order: InOrder = map, until_s: float = math.inf
) -> Iterator[set[str]]:
    """Do what `update` does in steps, and yield the ids of the sessions that each has built.

    The caller can leave it after any step, and it starts no step when `time.monotonic()` is past `until_s`;
    a further call continues there, and `stale` returns whether one is needed. `in_order` calls a function for
    each of some arguments, perhaps in other processes, and yields the results in order. `observations` are
    those of earlier calls or of an import.
    """
    start(store, observations)
    while True:
        yield from _part(store, observations, in_order, until_s)
        if time.monotonic() >= until_s or not stale(store):
            return


def _part(store: Store, observations: Observations, in_order: InOrder, until_s: float) -> Iterator[set[str]]:
    """Derive what is observed already or, of a backlog, at most `_DERIVED_AT_ONCE` records."""
    done = derived_up_to(store) or 0
    last = min(newest(store), max(observations.seq, done + _DERIVED_AT_ONCE))
    if last > done and not observations.is_linked:
        yield from _observe(store, observations, last, in_order, until_s)
        if observations.seq < last or observations.missed:
            return
        store.query(_sql("new_traces"), {"seq": done, "last": last})
        store.query("CREATE OR REPLACE TEMP TABLE earlier AS FROM new_traces WHERE is_known")
        yield from _observe_again(store, observations, "link", in_order, until_s)
        if observations.again["link"]:
            return
        for _ in _link(store, observations, done, last):
            yield set()
            if time.monotonic() >= until_s:
                return
    for session_ids in _write_built(store, observations):
        yield session_ids
        if time.monotonic() >= until_s:
            return
    store.query(_sql("not_whole"), whole=arrow_column("trace_id", observations.whole_traces()))
    yield from _observe_again(store, observations, "build", in_order, until_s)
    if not observations.again["build"]:
        yield from _build(store, observations, in_order, until_s)
        if not changed_sessions(store):
            observations.forget()


def start(store: Store, observations: Observations) -> None:
    """Create the derived tables unless they are there, and drop observations that are of no use any more."""
    if derived_up_to(store) is None:
        forget(store)
    observations.start(_step_number(store), settings_of(store), derived_up_to(store) or 0)


def _observe(
    store: Store, observations: Observations, last: int, in_order: InOrder, until_s: float
) -> Iterator[set[str]]:
    """Observe the records that were not observed yet, in the order of arrival."""
    if observations.seq < last:
        observations.missed.append((observations.seq, last))
        observations.seq, observations.again = last, {}
    yield from _observe_ranges(store, observations, observations.missed, in_order, until_s)


def _observe_again(
    store: Store, observations: Observations, purpose: str, in_order: InOrder, until_s: float
) -> Iterator[set[str]]:
    """Observe again, in the order of arrival, the records of the traces in the table `earlier`.

    Only if they are many: a few are read when they are needed, which takes a look through all spans.
    """
    if purpose not in observations.again:
        observations.again[purpose] = _ranges_of_earlier(store)
    if todo := observations.again[purpose]:
        yield from _observe_ranges(store, observations, todo, in_order, until_s, "earlier")


def _ranges_of_earlier(store: Store) -> list[tuple[int, int]] | None:
    """Return the ranges of arrivals that have records of the traces in the table `earlier`; None if few."""
    ((first, records),) = store.query("SELECT min(first_seq), sum(records) FROM earlier")
    if (records or 0) <= AT_ONCE:
        return None
    found = store.query(
        "SELECT DISTINCT (seq - 1) // $rows * $rows AS after FROM spans SEMI JOIN earlier USING (trace_id) "
        "WHERE seq BETWEEN $first AND $last ORDER BY after",
        {"rows": AT_ONCE, "first": first, "last": derived_up_to(store)},
    )
    return [(after, after + AT_ONCE) for (after,) in found]


def _observe_ranges(
    store: Store,
    observations: Observations,
    todo: list[tuple[int, int]],
    in_order: InOrder,
    until_s: float,
    traces: str | None = None,
) -> Iterator[set[str]]:
    """Observe the records in ranges of arrivals, and take the finished ranges from the list.

    Of the traces in a table, if it is given.
    """
    settings = settings_of(store)
    read: deque[tuple[int, int]] = deque()  # the ranges of arrivals that are not observed yet

    def jobs() -> Iterator[RowsJob]:
        for after, upto in list(todo):
            while after < upto:
                rows, after = arrived_rows(store, after, upto, traces)
                read.append((after, upto))
                yield rows, settings, traces is None and observations.order.is_by_session
                if time.monotonic() >= until_s:
                    return

    for observed in in_order(observe_rows, jobs()):
        observations.add(observed)
        observations.order.add(observed)
        reached, upto = read.popleft()
        todo[0] = (reached, upto)
        if reached >= upto:
            del todo[0]
        yield set()


def observe_rows(job: RowsJob) -> Observed:
    """Return the observations of rows of the database, by trace."""
    rows, settings, by_session = job
    return observe_records(spans_of(rows.spans), logs_of(rows.logs), settings, by_session=by_session)


def _link(store: Store, observations: Observations, done: int, last: int) -> Iterator[None]:
    """Write where new traces belong, and which sessions changed."""
    ((traces,),) = store.query("SELECT count(*) FROM new_traces")
    for first in range(0, traces, _LINKED_AT_ONCE):
        rows = store.query(
            "SELECT * EXCLUDE number FROM new_traces WHERE number BETWEEN $first AND $last ORDER BY number",
            {"first": first, "last": first + _LINKED_AT_ONCE - 1},
        )
        new = {row[0]: StoredTrace(TraceRange(*row[:3]), *row[3:]) for row in rows}
        observed = _whole_traces(store, observations, new.values(), "link")
        linked, changed = linked_traces(store, observed)
        with _step(store, observations):
            write_traces(store, observed, linked, new)
            _mark_changed(store, changed)
        yield
    with _step(store, observations):
        _mark_changed(store, sessions_with_logs(store, after=done, upto=last))
        store.query("UPDATE derived.progress SET seq = $seq", {"seq": last})
    observations.is_linked = True


def _whole_traces(
    store: Store, observations: Observations, traces: Iterable[StoredTrace], purpose: str
) -> list[Trace]:
    """Return the traces of all their records: as they were observed, else as they are read together."""
    whole, to_read = [], []
    observed_again = observations.again[purpose] is not None

    def in_parts() -> Iterator[ObservedTrace]:
        for trace in traces:
            observed = observations.of(trace.range.trace_id)
            one = joined(observed) if observed and (observed_again or not trace.is_known) else None
            if (
                one is None
                or one.trace.records != trace.records
                or (purpose == "build" and one.observations is None)
            ):
                to_read.append(trace)
            else:
                whole.append(one.trace)
                if len(observed) > 1:
                    yield one

    for some in in_batches(in_parts(), size_of, AT_ONCE_BYTES):
        observations.replace(some)
    observations.mark_whole(trace.trace_id for trace in whole)
    return whole + [one.trace for one in _read_whole(store, observations, to_read)]


def _read_whole(
    store: Store, observations: Observations, traces: Iterable[StoredTrace]
) -> Iterator[ObservedTrace]:
    """Read all records of traces, and yield their observations."""
    settings = settings_of(store)
    for some in in_batches(traces, lambda trace: trace.records, AT_ONCE):
        rows = stored_rows(store, [trace.range for trace in some])
        observed = observe_records(spans_of(rows.spans), logs_of(rows.logs), settings).traces
        observations.replace(observed)
        yield from observed


def linked_traces(store: Store, traces: Sequence[Trace]) -> tuple[LinkedTraces, set[str]]:
    """Return the sessions of traces, and which sessions change with them."""
    links, leaders = link_traces(store, {trace.trace_id: trace.position for trace in traces})
    session_by_trace = {trace.trace_id: links.pop(trace.trace_id, trace.session_id) for trace in traces}
    before = store.query(
        "SELECT session_id FROM derived.traces SEMI JOIN wanted USING (trace_id)",
        wanted=arrow_column("trace_id", [*session_by_trace, *links]),
    )
    changed = {*session_by_trace.values(), *links.values(), *(session_id for (session_id,) in before)}
    return LinkedTraces(session_by_trace, links, leaders), changed


def write_traces(
    store: Store, traces: Sequence[Trace], linked: LinkedTraces, stored: Mapping[str, StoredTrace]
) -> None:
    """Write where traces belong, within the caller's transaction; move the derived ones that they affect."""
    rows_by_table = _trace_rows(traces, linked, stored)
    known = [trace_id for trace_id in linked.session_by_trace if stored[trace_id].is_known]
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
        if linked.moved:
            store.query(
                f"UPDATE derived.{table} SET session_id = moved.session_id FROM moved "  # noqa: S608 (our own names)
                f"WHERE {table}.trace_id = moved.trace_id",
                moved=arrow_rows(list(linked.moved.items()), _MOVED),
            )
    if regrouped := [item for item in linked.leaders.items() if item[0] not in linked.session_by_trace]:
        store.query(
            "UPDATE derived.traces SET leader = regrouped.leader FROM regrouped "
            "WHERE traces.trace_id = regrouped.trace_id",
            regrouped=arrow_rows(regrouped, _LEADERS),
        )


def _trace_rows(
    traces: Iterable[Trace], linked: LinkedTraces, stored: Mapping[str, StoredTrace]
) -> dict[str, list[Row]]:
    """Return the rows of traces, by table."""
    rows: dict[str, list[Row]] = {table: [] for table in _OF_TRACES}
    for trace_id, _, records, position, not_understood in traces:
        session_id = linked.session_by_trace[trace_id]
        conversation = (session_id, position.start_ns, position.history, position.request)
        named = (position.conversation_id, linked.leaders[trace_id])
        rows["traces"].append((*stored[trace_id].range, records, *conversation, *named))
        rows["keyed_calls"] += [(session_id, trace_id, *call) for call in sorted(position.calls, key=str)]
        rows["digests"] += [
            (session_id, trace_id, position.start_ns, digest) for digest in sorted(position.digests)
        ]
        rows["not_understood"] += [(session_id, trace_id, *counts) for counts in not_understood]
    return rows


def _write_built(store: Store, observations: Observations) -> Iterator[set[str]]:
    """Write the sessions that changed and were built where they were read, if nothing else is of them."""
    for traces in _changed_traces(store):
        alone = set(traces).difference(logged(store, traces))
        ids = {s: [trace.range.trace_id for trace in traces[s]] for s in alone}
        if built := observations.built(ids):
            _write_step(store, observations, list(built.traces), built)
            yield set(built.session_ids)


def _build(store: Store, observations: Observations, in_order: InOrder, until_s: float) -> Iterator[set[str]]:
    """Build the sessions that changed, from all their traces, and replace their rows."""
    groups: deque[list[str]] = deque()

    def jobs() -> Iterator[Recorded]:
        for session_ids, recorded in _recorded(store, observations):
            groups.append(session_ids)
            yield recorded
            if time.monotonic() >= until_s:
                return

    for built in in_order(build_sessions, jobs()):
        _write_step(store, observations, groups.popleft(), built)
        yield set(built.session_ids)


def _write_step(
    store: Store, observations: Observations, session_ids: Sequence[str], built: BuiltSessions
) -> None:
    with _step(store, observations):
        replace_sessions(store, session_ids, built)
        store.query(
            "DELETE FROM derived.changed WHERE session_id IN (FROM built)",
            built=arrow_column("session_id", session_ids),
        )


def _changed_traces(store: Store) -> Iterator[dict[str, list[StoredTrace]]]:
    """Yield the sessions that changed, some at a time, with their traces."""
    changed = store.query(_sql("changed_sessions"))
    for some in in_batches(changed, lambda row: int(row[1]), _BUILT_AT_ONCE):
        rows = store.query(
            "SELECT session_id, trace_id, first_seq, last_seq, records FROM derived.traces "
            "SEMI JOIN wanted USING (session_id) ORDER BY first_seq, trace_id",
            wanted=arrow_column("session_id", [session_id for session_id, _ in some]),
        )
        traces: dict[str, list[StoredTrace]] = {session_id: [] for session_id, _ in some}
        for session_id, *place, records in rows:
            traces[session_id].append(StoredTrace(TraceRange(*place), records, True))
        yield traces


def _recorded(store: Store, observations: Observations) -> Iterator[tuple[list[str], Recorded]]:
    """Yield the sessions that changed, some at a time, and all that they are built from."""
    settings = settings_of(store)
    for traces in _changed_traces(store):
        for session_ids, observed in _observed(store, observations, traces):
            yield (
                session_ids,
                Recorded(
                    observed,
                    {trace.range.trace_id: one for one in session_ids for trace in traces[one]},
                    {trace.range.trace_id: trace.records for one in session_ids for trace in traces[one]},
                    settings,
                    logged(store, session_ids),
                ),
            )


def _observed(
    store: Store, observations: Observations, traces: Mapping[str, Sequence[StoredTrace]]
) -> Iterator[tuple[list[str], dict[str, Sequence[Observation]]]]:
    """Yield sessions, at most `_BUILT_AT_ONCE_BYTES` or one, and the observations of their traces."""
    to_read = [
        trace
        for of_session in traces.values()
        for trace in of_session
        if not observations.has_whole(trace.range.trace_id)
    ]
    _whole_traces(store, observations, to_read, "build")
    by_trace: dict[str, Sequence[Observation]] = {}
    session_ids: list[str] = []
    size = 0
    for session_id, of_session in traces.items():
        session_ids.append(session_id)
        for trace in of_session:
            whole = observations.whole(trace.range.trace_id)
            if whole is None or whole.observations is None:
                raise AssertionError(f"trace {trace.range.trace_id} was not read whole")
            by_trace[trace.range.trace_id] = whole.observations
            size += size_of(whole)
        if size >= _BUILT_AT_ONCE_BYTES:
            yield session_ids, by_trace
            by_trace, session_ids, size = {}, [], 0
    if session_ids:
        yield session_ids, by_trace


@contextmanager
def _step(store: Store, observations: Observations) -> Iterator[None]:
    """Commit the block's statements together, as a step that this process knows of."""
    with store.transaction():
        yield
        store.query("UPDATE derived.steps SET number = number + 1")
    observations.advance(_step_number(store))


def _mark_changed(store: Store, session_ids: Iterable[str]) -> None:
    if ids := sorted(session_ids):
        store.query("INSERT INTO derived.changed FROM changed", changed=arrow_column("session_id", ids))


def _step_number(store: Store) -> int:
    return int(store.query("FROM derived.steps")[0][0])


def new_spans(store: Store) -> int:
    """Return how many spans arrived since the last derivation."""
    done = derived_up_to(store) or 0
    return _scalar(store, f"SELECT count(*) FROM spans WHERE seq > {done}") or 0  # noqa: S608 (a number)


def records_left(store: Store, observations: Observations) -> int:
    """Return about how many records the remaining steps observe, link and build."""
    done, last = derived_up_to(store) or 0, newest(store)
    unobserved = last - observations.seq + sum(upto - after for after, upto in observations.missed)
    linked = f"SELECT coalesce(sum(records), 0)::BIGINT FROM derived.traces WHERE first_seq > {done}"  # noqa: S608 (a number)
    unlinked = max(last - done - (_scalar(store, linked) or 0), 0)
    changed = sum(int(records) for _, records in store.query(_sql("changed_sessions")))
    return unobserved + 2 * unlinked + changed


def changed_sessions(store: Store) -> frozenset[str]:
    """Return the ids of the sessions that are to be built, because their rows are out of date."""
    return frozenset(session_id for (session_id,) in store.query("FROM derived.changed"))


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
        for name in ("progress", "steps", "changed", *_OF_TRACES):
            store.query(_sql(name))
        store.query(";\n".join(create_statements()))
        store.query(_sql("state_variables"))
        store.query(_sql("question_metadata"))
        store.query(";\n".join(comment_statements()))  # 10 ms at once, 50 ms one by one
        store.query("INSERT INTO derived.progress VALUES ($fingerprint, 0)", {"fingerprint": fingerprint()})
        # A number that no earlier derivation had.
        store.query("INSERT INTO derived.steps VALUES ($number)", {"number": time.time_ns()})
    store.checked.add("derived")


def derived_up_to(store: Store) -> int | None:
    """Return the last arrival that is derived; None if all is to be derived again."""
    if "derived" not in store.checked:
        if table_problem(store.connection, "derived", _COLUMNS):  # nothing, or of another version
            return None
        store.checked.add("derived")
    rows = store.query(
        "SELECT seq FROM derived.progress WHERE fingerprint = $fingerprint", {"fingerprint": fingerprint()}
    )
    return int(rows[0][0]) if rows else None


def newest(store: Store) -> int:
    """Return the newest arrival, 0 if nothing has arrived."""
    return _scalar(store, "SELECT greatest((SELECT max(seq) FROM spans), (SELECT max(seq) FROM logs))") or 0


def _scalar(store: Store, query: str) -> int | None:
    rows = store.query(query)
    return rows[0][0] if rows else None


def _sql(name: str) -> str:
    return statement(name, "spangrade.evaluator.derive.sync.sql")


# How long the database is open at a time, and closed then: a process that waits for it tries every 0.05 s.
WINDOW_S = 2.0
PAUSE_S = 0.1
# The same where the parts of a server take turns: pages wait for the end of a window.
SHARED_WINDOW_S = 0.5

OpenStore = Callable[[], AbstractContextManager[Store]]


def is_behind(store: Store, configured: Configured = NOT_CONFIGURED) -> bool:
    """Return whether `bring_up_to_date` has something to do."""
    return differs(store, configured) or stale(store) or bool(waiting(store.path))


def bring_up_to_date(
    open_store: OpenStore,
    configured: Configured = NOT_CONFIGURED,
    in_order: InOrder = map,
    *,
    observations: Observations | None = None,
    spool: bool = True,
    on_share: Callable[[float], None] | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Apply the settings, load the spool, and derive the sessions that are out of date; return how many.

    For `in_order` and `observations` see `steps`. Without `spool` what waits there is not loaded. `on_share`
    is called with the share that is done, from 0 to 1, after each window; `stop` ends it after a window.
    """
    most_left, share = 1, 0.0
    derived: set[str] = set()
    observations = Observations() if observations is None else observations
    with few_collections():
        while stop is None or not stop.is_set():
            with open_store() as store:
                shared = turns_at(store.path) is not None
                until_s = time.monotonic() + (SHARED_WINDOW_S if shared else WINDOW_S)
                apply(store, configured)
                configured = NOT_CONFIGURED
                if spool:
                    loaded = drain(store, until_s=until_s)
                    spool = any(loaded) and time.monotonic() >= until_s  # there may be more
                if not spool:
                    derived.update(*steps(store, observations, in_order, until_s))
                    if not stale(store):
                        return len(derived)
                    if on_share is not None:
                        left = records_left(store, observations)
                        most_left = max(most_left, left)
                        share = max(share, 1 - left / most_left)
                        on_share(share)
            time.sleep(PAUSE_S)
    return len(derived)
