"""Which sessions a portion affects: those that it holds whole, and those that must be read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spangrade.evaluator.derive.sync.link_traces import link_traces
from spangrade.evaluator.derive.sync.portion import Place
from spangrade.evaluator.derive.sync.recorded import has_logs
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column


class Affected(NamedTuple):
    """The sessions of a portion's traces, and of stored traces that move; the sessions to be read again.

    Any other session of the portion is whole in it. `leaders` are the traces whose calls others repeat, by
    trace, of the portion's traces and of stored ones.
    """

    session_by_trace: dict[str, str]
    moved: dict[str, str]
    read_again: set[str]
    leaders: dict[str, str | None]


def affected_by(store: Store, places: Sequence[Place], shared: Iterable[str] = ()) -> Affected:
    """Return what the traces of a portion affect; `shared` are sessions that other portions belong to too."""
    links, leaders = link_traces(store, {place.trace_id: place.position for place in places})
    session_by_trace = {place.trace_id: links.pop(place.trace_id, place.session_id) for place in places}
    before = session_of_traces(store, [*session_by_trace, *links])
    read_again = {*before.values(), *links.values()}
    for place in places:
        session_id = session_by_trace[place.trace_id]
        if session_id != place.session_id:  # linked: the portion has it as a session of its own
            read_again |= {place.session_id, session_id}
    others = set(session_by_trace.values()) - read_again
    read_again |= others & set(shared)
    read_again |= _stored_sessions(store, others)
    read_again |= has_logs(store, others)
    return Affected(session_by_trace, links, read_again, leaders)


def session_of_traces(store: Store, trace_ids: Sequence[str]) -> dict[str, str]:
    """Return the sessions of those traces that are derived, by trace."""
    rows = store.query(
        "SELECT trace_id, session_id FROM derived.traces SEMI JOIN wanted USING (trace_id)",
        wanted=arrow_column("trace_id", trace_ids),
    )
    return dict(rows)


def _stored_sessions(store: Store, session_ids: Iterable[str]) -> set[str]:
    """Return those of the sessions that have traces already, or are to be read again."""
    rows = store.query(
        "SELECT session_id FROM wanted SEMI JOIN (SELECT session_id FROM derived.traces "
        "UNION ALL SELECT session_id FROM derived.read_again) USING (session_id)",
        wanted=arrow_column("session_id", sorted(session_ids)),
    )
    return {session_id for (session_id,) in rows}
