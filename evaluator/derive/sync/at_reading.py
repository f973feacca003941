"""Sessions that are built where their records are read, before these are stored.

For the most part the records of a session follow one another, and what a part of a file shows of it is all.
Once they are stored and linked, a session is written as it was built if the database knows of it what that
part showed and nothing else. Any other is built from what is stored, as `update` does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import nanoarrow as na

from spangrade.evaluator.derive.settings import Settings
from spangrade.evaluator.derive.sync.observed import Trace, observe_records
from spangrade.evaluator.derive.sync.sessions import BuiltSessions, Recorded, build_sessions
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store.arrow import joined

_FEW = 16  # at most 1 of so many sessions of a part is in an earlier one: the others are whole


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
