"""Sessions from all that was observed of their traces, and their rows in the database: each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows


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
