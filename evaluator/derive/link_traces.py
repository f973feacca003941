"""Traces of one conversation that records no id, linked by their messages.

A model client makes one trace per call; each later request repeats the messages of the calls before it. A
link is made only where it is certain: a history that several conversations have (many users say the same),
or that continues in several ways, links nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spangrade.converters.spans.observation import Observation
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column


class Position(NamedTuple):
    """A trace's position in a conversation, as digests of messages.

    `history` is what its first model call continues (None where a conversation may begin), `request` that
    call's whole request, `digests` the conversation after each of its calls.
    """

    start_ns: int
    history: str | None
    request: str | None
    digests: frozenset[str]


NO_POSITION = Position(0, None, None, frozenset())


def position_of(observations: Iterable[Observation]) -> Position:
    """Return a trace's position; `NO_POSITION` with a conversation id, or without a call with messages."""
    calls: list[Observation] = []
    for observation in observations:
        if observation.conversation_id:
            return NO_POSITION
        if observation.digests is not None:
            calls.append(observation)
    if not calls:
        return NO_POSITION
    first = min(calls, key=lambda o: (o.start_ns, o.span_id))
    if first.digests is None:
        return NO_POSITION
    return Position(
        start_ns=first.start_ns,
        history=first.digests.history,
        request=first.digests.with_request,
        digests=frozenset(o.digests.with_response for o in calls if o.digests and o.digests.with_response),
    )


def link_traces(store: Store, new: Mapping[str, Position]) -> dict[str, str]:
    """Return the session ids that follow from positions: of new traces, and of derived ones that move.

    A trace belongs to the session of the one trace, or of the traces of one session, whose digests had its
    history when it began. Traces that continue one that moves, move with it.
    """
    before = _stored(store, "trace_id", new) if new else {}
    positions = {trace_id: position for trace_id, position in new.items() if position.request}
    if not positions and not before:
        return {}
    old = [position for _, position in before.values()]
    stored: dict[str, str] = {}  # the sessions of derived traces that are linked again
    links: dict[str, str] = {}

    def link_again(histories: Iterable[str | None], where: str = "true", after: int | None = None) -> None:
        for trace_id, (session_id, position) in _stored(store, "history", histories, where, after).items():
            if trace_id not in new and trace_id not in positions:
                positions[trace_id], stored[trace_id] = position, session_id

    affected = [*positions.values(), *old]
    link_again((digest for p in affected for digest in p.digests), _LATER, min(p.start_ns for p in affected))
    link_again(p.history for p in old)
    link_again((p.history for p in positions.values()), _LINKED)
    pending = set(positions)
    while pending:
        before_by_history, requests = _neighbours(store, new, positions, pending)
        moved = []
        for trace_id in sorted(pending, key=lambda t: (positions[t].start_ns, t)):
            position, session_id = positions[trace_id], trace_id
            if position.history is not None and len(requests[position.history]) == 1:
                candidates: set[str] = set()
                for start_ns, other, other_session in before_by_history.get(position.history, ()):
                    if start_ns >= position.start_ns or len(candidates) > 1:
                        break
                    candidates.add(links.get(other) or stored.get(other) or other_session)
                session_id = candidates.pop() if len(candidates) == 1 else trace_id
            if session_id != (links.get(trace_id) or stored.get(trace_id)):
                links[trace_id] = session_id
                moved.append(positions[trace_id])
        continued = {digest for position in moved for digest in position.digests}
        if moved:
            link_again(continued, _LATER, min(position.start_ns for position in moved))
        pending = {trace_id for trace_id, position in positions.items() if position.history in continued}
    return links


_LATER = "start_ns > $after"
_LINKED = "session_id <> trace_id"


def _stored(
    store: Store, column: str, values: Iterable[str | None], where: str = "true", after: int | None = None
) -> dict[str, tuple[str, Position]]:
    """Return the session and the position of the derived traces that have one of some values in a column."""
    wanted = sorted({value for value in values if value is not None})
    if not wanted:
        return {}
    rows = store.query(
        "SELECT trace_id, session_id, start_ns, history, request, "  # noqa: S608 (our own text)
        "(SELECT list(digest) FROM derived.digests WHERE digests.trace_id = traces.trace_id) "
        f"FROM derived.traces SEMI JOIN wanted USING ({column}) WHERE request IS NOT NULL AND {where}",
        {} if after is None else {"after": after},
        wanted=arrow_column(column, wanted),
    )
    return {row[0]: (row[1], Position(row[2], row[3], row[4], frozenset(row[5] or ()))) for row in rows}


def _neighbours(
    store: Store, new: Iterable[str], positions: Mapping[str, Position], pending: Iterable[str]
) -> tuple[dict[str, list[tuple[int, str, str]]], dict[str, set[str]]]:
    """Return by history the traces that end with it, as (start, trace, session), and the requests after it.

    The traces are in order. Of derived ones, the two earliest sessions and two requests are enough to tell
    one from many.
    """
    histories = {h for trace_id in pending if (h := positions[trace_id].history)}
    traces: dict[str, list[tuple[int, str, str]]] = {}
    requests: dict[str, set[str]] = {}
    if not histories:
        return traces, requests
    for trace_id, position in positions.items():
        for digest in position.digests & histories:
            traces.setdefault(digest, []).append((position.start_ns, trace_id, trace_id))
        if position.history in histories and position.history and position.request:
            requests.setdefault(position.history, set()).add(position.request)
    known = arrow_column("trace_id", sorted({*new, *positions}))
    for digest, session_id, start_ns in store.query(
        "SELECT digest, session_id, min(start_ns) FROM derived.digests "
        "SEMI JOIN wanted USING (digest) ANTI JOIN known USING (trace_id) GROUP BY digest, session_id "
        "QUALIFY row_number() OVER (PARTITION BY digest ORDER BY min(start_ns)) <= 2",
        wanted=arrow_column("digest", sorted(histories)),
        known=known,
    ):
        traces.setdefault(digest, []).append((start_ns, "", session_id))
    for history, *two in store.query(
        "SELECT history, min(request), max(request) FROM derived.traces "
        "SEMI JOIN wanted USING (history) ANTI JOIN known USING (trace_id) GROUP BY history",
        wanted=arrow_column("history", sorted(histories)),
        known=known,
    ):
        requests.setdefault(history, set()).update(two)
    for entries in traces.values():
        entries.sort()
    return traces, requests
