"""Sessions from all that was observed of their traces, and their rows in the database: each once.

Some are built where their records are read, before these are stored: for the most part the records of a
session follow one another, and what a part of a file shows of it is all. Once they are stored and linked, a
session is written as it was built if the database knows of it what that part showed and nothing else. Any
other is built from what is stored, as `update` does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

import duckdb
import nanoarrow as na

from spangrade.converters.spans.observation import Observation, Structure
from spangrade.evaluator.derive.build_session import NOT_LOGGED, Logged, session_of
from spangrade.evaluator.derive.evaluations import delete_scores, save_scores
from spangrade.evaluator.derive.schema import TABLES
from spangrade.evaluator.derive.session_rows import rows_of
from spangrade.evaluator.derive.settings import Settings
from spangrade.evaluator.derive.sync.observed import Trace, observe_records
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows, joined

_FEW = 16  # at most 1 of so many sessions of a part is in an earlier one: the others are whole


class Recorded(NamedTuple):
    """All that sessions are built from: the observations by trace, and what is `logged` of sessions.

    `records` are the numbers of spans and logs, by trace.
    """

    observations: Mapping[str, Sequence[Observation]]
    session_by_trace: Mapping[str, str]
    records: Mapping[str, int]
    settings: Settings
    logged: Mapping[str, Logged] = MappingProxyType({})


class BuiltSessions(NamedTuple):
    """The ids of sessions, and their rows by table: Arrow tables, whose `batch` is 0 until it is known."""

    session_ids: list[str]
    rows: dict[str, na.Array]


def build_sessions(recorded: Recorded) -> BuiltSessions:
    """Return the sessions of whole traces: a pure function, so that any process can call it."""
    traces_by_session: dict[str, list[str]] = {}
    for trace_id in recorded.observations:
        traces_by_session.setdefault(recorded.session_by_trace[trace_id], []).append(trace_id)
    sessions = list(sessions_of(recorded, traces_by_session))
    rows = {
        table: arrow_rows(rows, TABLES[table].arrow_types)
        for table, rows in rows_of(sessions, batch=0).items()
        if rows
    }
    return BuiltSessions([session.session_id for session in sessions], rows)


def sessions_of(recorded: Recorded, traces_by_session: Mapping[str, Sequence[str]]) -> Iterator[Session]:
    """Yield the sessions of whole traces."""
    for session_id, trace_ids in traces_by_session.items():
        observations = [o for trace_id in trace_ids for o in recorded.observations[trace_id]]
        # A trace without an agent's work (a web server's, a protocol's) is not a session.
        if any(_is_of_agent(o) or o.notes.unreadable for o in observations):
            yield session_of(
                session_id,
                "trace" if session_id in recorded.observations else "conversation",
                sorted(observations, key=_order),
                recorded.settings.prices,
                recorded.logged.get(session_id, NOT_LOGGED),
                records=sum(map(recorded.records.__getitem__, trace_ids)),
            )


def _is_of_agent(o: Observation) -> bool:
    return not isinstance(o, Structure) and o.traits.isdisjoint(("of_protocol", "inferred"))


def _order(observation: Observation) -> tuple[int, str, str]:
    return observation.span.start_ns, observation.span.trace_id, observation.span.span_id


def replace_sessions(store: Store, session_ids: Sequence[str], built: BuiltSessions) -> None:
    """Replace the rows of `session_ids` by sessions, within the caller's transaction."""
    before = store.query(
        "SELECT session_id FROM derived.sessions SEMI JOIN wanted USING (session_id)",
        wanted=arrow_column("session_id", session_ids),
    )
    if before:
        old = arrow_column("session_id", [session_id for (session_id,) in before])
        for table in TABLES:
            store.query(f"DELETE FROM derived.{table} WHERE session_id IN (FROM old)", old=old)  # noqa: S608 (our own names)
    delete_scores(store, session_ids)
    insert_sessions(store, built)


def insert_sessions(store: Store, built: BuiltSessions) -> None:
    """Write sessions that the database does not have. Raises StoreError if it has one of them."""
    ((batch,),) = store.query("SELECT coalesce(max(batch), 0) + 1 FROM derived.sessions")
    wanted = arrow_column("session_id", built.session_ids)
    try:
        for table, rows in built.rows.items():
            store.query(
                f"INSERT INTO derived.{table} BY NAME "  # noqa: S608 (our own names)
                "SELECT * REPLACE ($batch AS batch) FROM incoming SEMI JOIN wanted USING (session_id)",
                {"batch": batch},
                incoming=rows,
                wanted=wanted,
            )
    except duckdb.ConstraintException as error:
        raise StoreError(f"{store.path}: {_derived_twice(built.session_ids, error)}") from error
    if "recorded_scores" in built.rows:
        save_scores(store, built.session_ids)


def _derived_twice(session_ids: Iterable[str], error: Exception) -> str:
    named = next((one for one in session_ids if f'"session_id: {one}"' in str(error)), "")
    return f"session {named}: derived a second time, which is a defect of spangrade: nothing is written"


class BuiltPart(NamedTuple):
    """The traces that a part of a file shows by some settings, and their sessions, as if it showed all."""

    settings: Settings
    traces: Sequence[Trace]
    built: BuiltSessions


class BuiltParts(NamedTuple):
    """What parts show together; `by_session` are the traces of each session that only one part has."""

    traces: Mapping[str, Trace]
    by_session: Mapping[str, frozenset[str]]
    built: BuiltSessions


class Order:
    """Whether the sessions of a file follow one another: they do until its parts show the contrary."""

    def __init__(self) -> None:
        self.is_by_session = True
        self._session_ids: set[str] = set()

    def add(self, part: BuiltPart) -> None:
        """Look at the sessions of the next part."""
        session_ids = {trace.session_id for trace in part.traces}
        again = len(session_ids & self._session_ids)
        self.is_by_session &= again * _FEW <= max(len(session_ids), _FEW)
        self._session_ids |= session_ids


def build_part(spans: Sequence[Span], logs: Sequence[LogRecord], settings: Settings) -> BuiltPart:
    """Return what a part shows: a pure function, so that any process can call it."""
    observed = observe_records([spans], logs, settings)
    traces = [trace for trace, _ in observed]
    recorded = Recorded(
        {trace.trace_id: observations for trace, observations in observed},
        {trace.trace_id: trace.session_id for trace in traces},
        {trace.trace_id: trace.records for trace in traces},
        settings,
    )
    return BuiltPart(settings, traces, build_sessions(recorded))


def together(parts: Sequence[BuiltPart], once: AbstractSet[str]) -> BuiltParts:
    """Return what parts show together of the traces that are read `once`: their records are the newest."""
    by_session: dict[str, frozenset[str]] = {}
    rows: dict[str, list[na.Array]] = {}
    twice: set[str] = set()
    for part in parts:
        of_part: dict[str, set[str]] = {}
        for trace in part.traces:
            of_part.setdefault(trace.session_id, set()).add(trace.trace_id)
        twice |= of_part.keys() & by_session.keys()
        by_session |= {session_id: frozenset(ids) for session_id, ids in of_part.items()}
        for table, some in part.built.rows.items():
            rows.setdefault(table, []).append(some)
    return BuiltParts(
        {trace.trace_id: trace for part in parts for trace in part.traces if trace.trace_id in once},
        {session_id: ids for session_id, ids in by_session.items() if session_id not in twice},
        BuiltSessions(
            [session_id for part in parts for session_id in part.built.session_ids],
            {table: joined(some) for table, some in rows.items()},
        ),
    )
