"""Bringing derived sessions up to date with new spans: each is built from all its spans.

The traces that got records are read from the database, whole, in the order of arrival and some at a time.
What they show links each to its session; both are written. A session that changed is then built, from what
was just read of its traces or, where that is no longer in memory, once all are linked, from the database.

Each step is one transaction, after which the work can stop and continue in another process. So the database
is open in short windows, between which other processes can open it. Memory does not grow with it.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

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
from spangrade.evaluator.derive.sync.observed import Observed, Trace, observe_records
from spangrade.evaluator.derive.sync.parts import in_batches
from spangrade.evaluator.derive.sync.recorded import (
    AT_ONCE,
    StoredRows,
    TraceRange,
    logged,
    logs_of,
    sessions_with_logs,
    spans_of,
    stored_rows,
    trace_sizes,
)
from spangrade.evaluator.derive.sync.sessions import (
    BuiltPart,
    BuiltSessions,
    Recorded,
    build_sessions,
    replace_sessions,
    together,
)
from spangrade.evaluator.derive.sync.workers import InOrder, few_collections
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows, sql_types
from spangrade.tracer.store.locks import turns_at
from spangrade.tracer.store.spool import drain, waiting
from spangrade.tracer.store.sql import statement
from spangrade.tracer.store.untrusted import column_types, table_problem

_SOUGHT = 200_000  # records of a backlog in which new traces are looked for at once
_LISTED = 20_000  # of these traces
AT_ONCE_BYTES = 48_000_000  # of rows that are read at once; a larger trace is read as it is observed
_HELD_BYTES = 64_000_000  # of rows whose observations are held until their sessions are built: some 30,000

Item = TypeVar("Item")
# Rows, and the settings of the database.
RowsJob = tuple[StoredRows, Settings]

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


class HeldTraces:
    """What was observed, by some settings, of traces that are linked, until their sessions are built."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self._traces: dict[str, tuple[TraceRange, Sequence[Observation]]] = {}
        self._size = 0

    def start(self, settings: Settings) -> None:
        """Hold nothing that was observed by other settings."""
        if self.settings != settings:
            self.clear()
            self.settings = settings

    def add(self, stored: Mapping[str, StoredTrace], observed: Iterable[Observed], size: int) -> None:
        """Hold what a number of bytes shows of traces."""
        for trace, observations in observed:
            self._traces[trace.trace_id] = stored[trace.trace_id].range, observations
        self._size += size

    @property
    def is_full(self) -> bool:
        """Whether it is time to build the sessions of what is held."""
        return self._size >= _HELD_BYTES

    @property
    def trace_ids(self) -> list[str]:
        """The traces that are held."""
        return list(self._traces)

    def of(self, traces: Iterable[StoredTrace]) -> dict[str, Sequence[Observation]] | None:
        """Return the observations of traces, by id; None if those of one of them are not held."""
        found = {}
        for place, *_ in traces:
            held = self._traces.get(place.trace_id)
            if held is None or held[0] != place:
                return None
            found[place.trace_id] = held[1]
        return found

    def clear(self, beyond: int = 0) -> None:
        """Hold nothing, if it is of more than a number of bytes."""
        if self._size < beyond:
            return
        self._traces.clear()
        self._size = 0


def update(store: Store) -> int:
    """Derive the sessions that new spans or logs belong to; return how many there were.

    All of them are derived again if the derived tables are missing or were derived in another way
    (`fingerprint`). A second call with nothing new does nothing. After an interruption it continues where it
    stopped.
    """
    return len(set().union(*steps(store)))


def stale(store: Store) -> bool:
    """Return whether `update` has something to do: new spans or logs, or all that is to be derived again."""
    done = derived_up_to(store)
    return done is None or newest(store) > done or bool(store.query("FROM derived.changed LIMIT 1"))


def steps(
    store: Store, in_order: InOrder = map, until_s: float = math.inf, held: HeldTraces | None = None
) -> Iterator[set[str]]:
    """Do what `update` does in steps, and yield the ids of the sessions that each has built.

    The caller can leave it after any step, and it starts no step when `time.monotonic()` is past `until_s`;
    a further call continues there, and `stale` returns whether one is needed. `in_order` calls a function for
    each of some arguments, perhaps in other processes, and yields the results in order. `held` is that of
    earlier calls.
    """
    if derived_up_to(store) is None:
        forget(store)
    held = HeldTraces() if held is None else held
    held.start(settings_of(store))
    while (done := derived_up_to(store) or 0) < newest(store):
        if held.is_full:
            yield from _build_held(store, held, in_order, until_s)
        else:
            for _ in _link(store, held, done, in_order, until_s):
                yield set()
                if held.is_full and time.monotonic() < until_s:
                    yield from _build_held(store, held, in_order, until_s)
        if time.monotonic() >= until_s:
            return
    yield from _build(store, _known(store, held), in_order, until_s)


def write_built(
    store: Store, parts: Sequence[BuiltPart], once: AbstractSet[str], after: int, held: HeldTraces
) -> None:
    """Link what was stored after an arrival, and write those sessions of its parts that are whole.

    Traces in one part alone are `once`. The rest, and all where earlier records are to be derived
    first or by other settings, is left to `steps`.
    """
    if derived_up_to(store) is None and not after:
        forget(store)
    settings = settings_of(store)
    read = together([part for part in parts if part.settings == settings], once)
    if not read.traces or derived_up_to(store) != after:
        return
    held.start(settings)
    while (done := derived_up_to(store) or 0) < newest(store):
        deque(_link(store, held, done, map, math.inf, read.traces), maxlen=0)
    for changed in _changed_traces(store, list(read.traces)):
        logged_of = logged(store, changed)
        whole = {
            session_id
            for session_id, traces in changed.items()
            if session_id not in logged_of
            and read.by_session.get(session_id) == frozenset(trace.range.trace_id for trace in traces)
            and all(_is_whole(read.traces.get(trace.range.trace_id), trace, after) for trace in traces)
        }
        built = [session_id for session_id in read.built.session_ids if session_id in whole]
        _replace(store, sorted(whole), BuiltSessions(built, read.built.rows))


def _is_whole(trace: Trace | None, stored: StoredTrace, after: int) -> bool:
    """Return whether a trace that was read is all that is stored of it, and arrived after a number."""
    return trace is not None and stored.range.first_seq > after and stored.records == trace.records


def _link(
    store: Store,
    held: HeldTraces,
    done: int,
    in_order: InOrder,
    until_s: float,
    read: Mapping[str, Trace] = MappingProxyType({}),
) -> Iterator[None]:
    """Write where the next traces belong that got records, and which sessions changed; hold what they show.

    They are linked by their first new record. So all records up to that of the last one are linked then.
    Those that were `read`, and are whole, are not read again.
    """
    settings, last = settings_of(store), min(newest(store), done + _SOUGHT)
    store.query(_sql("new_traces"), {"seq": done, "last": last})
    ((left,),) = store.query("SELECT count(*) FROM new_traces")
    rows = store.query("SELECT * FROM new_traces ORDER BY since LIMIT $most", {"most": _LISTED})
    new = [(row[0], StoredTrace(TraceRange(*row[1:4]), *row[4:])) for row in rows]
    whole = {
        stored.range.trace_id
        for _, stored in new
        if _is_whole(read.get(stored.range.trace_id), stored, done) and not stored.is_known
    }
    groups: deque[tuple[dict[str, StoredTrace], int, int]] = deque()

    def to_read(one: tuple[int, StoredTrace]) -> Sequence[StoredTrace]:
        return () if one[1].range.trace_id in whole else one[1:]

    def jobs() -> Iterator[RowsJob]:
        nonlocal left
        for group in in_batches(new, lambda one: sum(trace.records for trace in to_read(one)), AT_ONCE):
            for some, found, size in _read(store, group, to_read):
                groups.append(({trace.range.trace_id: trace for _, trace in some}, size, some[-1][0]))
                left -= len(some)
                yield found, settings
                if time.monotonic() >= until_s:
                    return

    for observed in _in_order(in_order, observe_rows, jobs()):
        stored, size, upto = groups.popleft()
        traces = [read[one] for one in stored if one in whole] + [trace for trace, _ in observed]
        linked, changed = linked_traces(store, traces)
        with store.transaction():
            write_traces(store, traces, linked, stored)
            _advance(store, done, upto, changed)
        held.add(stored, observed, size)
        done = upto
        yield
    if not left:
        with store.transaction():
            _advance(store, done, last)


def _advance(store: Store, done: int, upto: int, changed: Iterable[str] = ()) -> None:
    """Write which sessions changed, also by session logs, and up to which arrival all is linked."""
    if ids := sorted({*changed, *sessions_with_logs(store, after=done, upto=upto)}):
        store.query("INSERT INTO derived.changed FROM changed", changed=arrow_column("session_id", ids))
    store.query("UPDATE derived.progress SET seq = $seq", {"seq": upto})


def _read(
    store: Store, items: Sequence[Item], traces_of: Callable[[Item], Iterable[StoredTrace]]
) -> Iterator[tuple[Sequence[Item], StoredRows, int]]:
    """Yield items with the rows of their traces and the size of these: at most `AT_ONCE_BYTES`, or one item.

    A larger one's rows are read where they are used, and are not all in memory at once.
    """
    sizes = trace_sizes(store, [trace.range for item in items for trace in traces_of(item)])

    def size_of(item: Item) -> int:
        return sum(sizes.get(trace.range.trace_id, 0) for trace in traces_of(item))

    for some in in_batches(items, size_of, AT_ONCE_BYTES):
        size = sum(map(size_of, some))
        rows = stored_rows(store, [trace.range for item in some for trace in traces_of(item)])
        yield some, StoredRows(list(rows.spans), rows.logs) if size <= AT_ONCE_BYTES else rows, size


def _in_order(
    in_order: InOrder, function: Callable[[Any], Any], jobs: Iterable[tuple[Any, Any]]
) -> Iterator[Any]:
    """Call a function for each job in order: here if its rows are to be read where they are used."""
    for is_read, some in groupby(jobs, _is_read):
        yield from (in_order if is_read else map)(function, some)


def _is_read(job: tuple[Any, Any]) -> bool:
    return all(isinstance(one.spans, list) for one in job if isinstance(one, StoredRows))


def observe_rows(job: RowsJob) -> list[Observed]:
    """Return what rows of the database show, by trace."""
    rows, settings = job
    return observe_records(spans_of(rows.spans), logs_of(rows.logs), settings)


# Sessions that changed with their traces, and what is known of these: observations, or rows to be observed.
_Known = tuple[Mapping[str, Sequence[StoredTrace]], Mapping[str, Sequence[Observation]] | StoredRows]


def _build_held(store: Store, held: HeldTraces, in_order: InOrder, until_s: float) -> Iterator[set[str]]:
    """Build the sessions that changed and whose traces are all held; hold nothing if none is left."""
    yield from _build(store, _known(store, held, only_held=True), in_order, until_s)
    if next(_known(store, held, only_held=True), None) is None:
        held.clear()


def _known(store: Store, held: HeldTraces, *, only_held: bool = False) -> Iterator[_Known]:
    """Yield the sessions that changed: those whose traces are all held, and the others with their rows."""
    for traces in _changed_traces(store, held.trace_ids if only_held else None):
        found = {one: of for one, each in traces.items() if (of := held.of(each)) is not None}
        if found:
            by_trace = {trace_id: o for of in found.values() for trace_id, o in of.items()}
            yield {one: traces[one] for one in found}, by_trace
        rest = [(one, each) for one, each in traces.items() if one not in found]
        if rest and not only_held:
            for some, rows, _ in _read(store, rest, itemgetter(1)):
                yield dict(some), rows


def _build(store: Store, known: Iterable[_Known], in_order: InOrder, until_s: float) -> Iterator[set[str]]:
    """Build sessions from all their traces, and replace their rows."""
    settings = settings_of(store)
    groups: deque[list[str]] = deque()

    def jobs() -> Iterator[tuple[Recorded, StoredRows | None]]:
        for traces, found in known:
            groups.append(list(traces))
            each = [(session_id, trace) for session_id, of in traces.items() for trace in of]
            recorded = Recorded(
                {} if isinstance(found, StoredRows) else found,
                {trace.range.trace_id: session_id for session_id, trace in each},
                {trace.range.trace_id: trace.records for _, trace in each},
                settings,
                logged(store, traces),
            )
            yield recorded, found if isinstance(found, StoredRows) else None
            if time.monotonic() >= until_s:
                return

    for built in _in_order(in_order, build, jobs()):
        session_ids = groups.popleft()
        _replace(store, session_ids, built)
        yield set(built.session_ids)


def _replace(store: Store, session_ids: Sequence[str], built: BuiltSessions) -> None:
    """Replace the rows of sessions that changed."""
    with store.transaction():
        replace_sessions(store, session_ids, built)
        store.query(
            "DELETE FROM derived.changed WHERE session_id IN (FROM built)",
            built=arrow_column("session_id", session_ids),
        )


def build(job: tuple[Recorded, StoredRows | None]) -> BuiltSessions:
    """Return the sessions of whole traces, whose rows are observed first where that was not done."""
    recorded, rows = job
    if rows is not None:
        observed = observe_rows((rows, recorded.settings))
        recorded = recorded._replace(observations={trace.trace_id: o for trace, o in observed})
    return build_sessions(recorded)


def _changed_traces(store: Store, held: Sequence[str] | None) -> Iterator[dict[str, list[StoredTrace]]]:
    """Yield the sessions that changed, some at a time, with their traces; only those of `held` if given."""
    changed = store.query(_sql("changed_sessions"))
    if held is not None:
        found = "SELECT DISTINCT session_id FROM derived.traces SEMI JOIN held USING (trace_id)"
        of_held = {session_id for (session_id,) in store.query(found, held=arrow_column("trace_id", held))}
        changed = [row for row in changed if row[0] in of_held]
    for some in in_batches(changed, lambda row: int(row[1]), 2 * AT_ONCE):
        rows = store.query(
            "SELECT session_id, trace_id, first_seq, last_seq, records FROM derived.traces "
            "SEMI JOIN wanted USING (session_id) ORDER BY first_seq, trace_id",
            wanted=arrow_column("session_id", [session_id for session_id, _ in some]),
        )
        traces: dict[str, list[StoredTrace]] = {session_id: [] for session_id, _ in some}
        for session_id, *place, records in rows:
            traces[session_id].append(StoredTrace(TraceRange(*place), records, True))
        yield traces


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


def new_spans(store: Store) -> int:
    """Return how many spans arrived since the last derivation."""
    done = derived_up_to(store) or 0
    return _scalar(store, f"SELECT count(*) FROM spans WHERE seq > {done}") or 0  # noqa: S608 (a number)


def records_left(store: Store) -> int:
    """Return about how many records the remaining steps link and build: each is linked, then built."""
    changed = sum(int(records) for _, records in store.query(_sql("changed_sessions")))
    return 2 * (newest(store) - (derived_up_to(store) or 0)) + changed


def outdated_sessions(store: Store) -> int:
    """Return how many sessions an earlier version derived, which are all to be derived again; 0 if none."""
    return count_sessions(store) if derived_up_to(store) is None else 0


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
        for name in ("progress", "changed", *_OF_TRACES):
            store.query(_sql(name))
        store.query(";\n".join(create_statements()))
        store.query(_sql("state_variables"))
        store.query(_sql("question_metadata"))
        store.query(";\n".join(comment_statements()))  # 10 ms at once, 50 ms one by one
        store.query("INSERT INTO derived.progress VALUES ($fingerprint, 0)", {"fingerprint": fingerprint()})
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
    held: HeldTraces | None = None,
    spool: bool = True,
    on_share: Callable[[float], None] | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Apply the settings, load the spool, and derive the sessions that are out of date; return how many.

    For `in_order` and `held` see `steps`. Without `spool` what waits there is not loaded. `on_share`
    is called with the share that is done, from 0 to 1, after each window; `stop` ends it after a window.
    """
    most_left, share = 1, 0.0
    derived: set[str] = set()
    held = HeldTraces() if held is None else held
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
                    derived.update(*steps(store, in_order, until_s, held))
                    if not stale(store):
                        return len(derived)
                    if on_share is not None:
                        left = records_left(store)
                        most_left = max(most_left, left)
                        share = max(share, 1 - left / most_left)
                        on_share(share)
            time.sleep(PAUSE_S)
    return len(derived)
