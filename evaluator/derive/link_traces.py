"""Traces of one conversation that records no id, linked by what was said in them.

A model client makes one trace a call; the later request repeats what the earlier one reached. The link is
made only where it is certain: a conversation that several traces reached (many users say the same), or
that goes on in several ways, links nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spangrade.converters.spans.observation import Observation
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column


class Place(NamedTuple):
    """Where a trace stands: what its first model call goes on from and asks, and what its calls reached."""

    start_ns: int
    history: str | None
    asked: str | None
    reached: frozenset[str]


NOWHERE = Place(0, None, None, frozenset())


def place_of(observations: Iterable[Observation]) -> Place:
    """Return a trace's place; `NOWHERE` if it has a conversation id, or no model call with messages."""
    calls: list[Observation] = []
    for seen in observations:
        if seen.conversation_id:
            return NOWHERE
        if seen.digests is not None:
            calls.append(seen)
    if not calls:
        return NOWHERE
    first = min(calls, key=lambda o: (o.start_ns, o.span_id))
    begun, reached = first.digests, {o.digests.with_response for o in calls if o.digests}
    if begun is None:
        return NOWHERE
    return Place(first.start_ns, begun.history, begun.with_request, frozenset(key for key in reached if key))


def linked(store: Store, fresh: Mapping[str, Place]) -> dict[str, str]:
    """Return the session id of each trace that has one by its place: the fresh ones, and those that move.

    A trace belongs to the session of the one trace, or of the traces of one session, that had reached its
    history when it began. Who goes on from a trace moves with it.
    """
    before = _stored(store, "trace_id", fresh) if fresh else {}
    places = {trace_id: place for trace_id, place in fresh.items() if place.asked}
    if not places and not before:
        return {}
    old = [place for _, place in before.values()]
    stored: dict[str, str] = {}  # the sessions of those that are looked at again
    links: dict[str, str] = {}

    def look_again(histories: Iterable[str | None], where: str = "true", after: int | None = None) -> None:
        for trace_id, (session_id, place) in _stored(store, "history", histories, where, after).items():
            if trace_id not in fresh and trace_id not in places:
                places[trace_id], stored[trace_id] = place, session_id

    both = [*places.values(), *old]
    look_again((key for p in both for key in p.reached), _LATER, min(p.start_ns for p in both))
    look_again(p.history for p in old)
    look_again((p.history for p in places.values()), _LINKED)
    pending = set(places)
    while pending:
        reached, asked = _around(store, fresh, places, pending)
        moved = []
        for trace_id in sorted(pending, key=lambda t: (places[t].start_ns, t)):
            place, session_id = places[trace_id], trace_id
            if place.history is not None and len(asked[place.history]) == 1:
                found: set[str] = set()
                for start_ns, other, other_session in reached.get(place.history, ()):
                    if start_ns >= place.start_ns or len(found) > 1:
                        break
                    found.add(links.get(other) or stored.get(other) or other_session)
                session_id = found.pop() if len(found) == 1 else trace_id
            if session_id != (links.get(trace_id) or stored.get(trace_id)):
                links[trace_id] = session_id
                moved.append(places[trace_id])
        ahead = {key for place in moved for key in place.reached}
        if moved:
            look_again(ahead, _LATER, min(place.start_ns for place in moved))
        pending = {trace_id for trace_id, place in places.items() if place.history in ahead}
    return links


_LATER = "start_ns > $after"
_LINKED = "session_id <> trace_id"


def _stored(
    store: Store, column: str, values: Iterable[str | None], where: str = "true", after: int | None = None
) -> dict[str, tuple[str, Place]]:
    """Return the session and the place of the traces already derived that have one of some values."""
    wanted = sorted({value for value in values if value is not None})
    if not wanted:
        return {}
    rows = store.query(
        "SELECT trace_id, session_id, start_ns, history, asked, "  # noqa: S608 (our own text)
        "(SELECT list(key) FROM derived.reached WHERE reached.trace_id = traces.trace_id) "
        f"FROM derived.traces SEMI JOIN wanted USING ({column}) WHERE asked IS NOT NULL AND {where}",
        {} if after is None else {"after": after},
        wanted=arrow_column(column, wanted),
    )
    return {row[0]: (row[1], Place(row[2], row[3], row[4], frozenset(row[5] or ()))) for row in rows}


def _around(
    store: Store, fresh: Iterable[str], places: Mapping[str, Place], pending: Iterable[str]
) -> tuple[dict[str, list[tuple[int, str, str]]], dict[str, set[str]]]:
    """Return, by history: who reached it as (start, trace, session) in order, and what was asked from there.

    Of those already derived, the two earliest sessions and two requests are enough to tell one from many.
    """
    histories = {h for trace_id in pending if (h := places[trace_id].history)}
    reached: dict[str, list[tuple[int, str, str]]] = {}
    asked: dict[str, set[str]] = {}
    if not histories:
        return reached, asked
    for trace_id, place in places.items():
        for key in place.reached & histories:
            reached.setdefault(key, []).append((place.start_ns, trace_id, trace_id))
        if place.history in histories and place.history and place.asked:
            asked.setdefault(place.history, set()).add(place.asked)
    known = arrow_column("trace_id", sorted({*fresh, *places}))
    for key, session_id, start_ns in store.query(
        "SELECT key, session_id, min(start_ns) FROM derived.reached "
        "SEMI JOIN wanted USING (key) ANTI JOIN known USING (trace_id) GROUP BY key, session_id "
        "QUALIFY row_number() OVER (PARTITION BY key ORDER BY min(start_ns)) <= 2",
        wanted=arrow_column("key", sorted(histories)),
        known=known,
    ):
        reached.setdefault(key, []).append((start_ns, "", session_id))
    for history, *two in store.query(
        "SELECT history, min(asked), max(asked) FROM derived.traces "
        "SEMI JOIN wanted USING (history) ANTI JOIN known USING (trace_id) GROUP BY history",
        wanted=arrow_column("history", sorted(histories)),
        known=known,
    ):
        asked.setdefault(history, set()).update(two)
    for entries in reached.values():
        entries.sort()
    return reached, asked
