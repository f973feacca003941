"""Traces of one conversation that records no id, linked by their messages and by the calls that they repeat.

A model client makes one trace per call; each later request repeats the messages of the calls before it. A
link is made only where it is certain: a history that several conversations have (many users say the same),
or that continues in several ways, links nothing. A trace that repeats the calls of another one, by a second
instrumentation, belongs to the session of that trace, and its messages link nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from spangrade.converters.spans.observation import ModelCall, Observation, RunSpan
from spangrade.evaluator.derive.duplicates import provider_of_id
from spangrade.evaluator.derive.timing import overlap
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column

_WITH_DIGESTS = (ModelCall, RunSpan)


class Position(NamedTuple):
    """A trace's position in a conversation, as digests of messages.

    `history` is what its first model call continues (None where a conversation may begin), `request` that
    call's whole request, `digests` the conversation after each of its calls; all are empty for a trace that
    records a `conversation_id`. `calls` are its model calls with the id of a response.
    """

    start_ns: int
    history: str | None
    request: str | None
    digests: frozenset[str]
    conversation_id: str | None = None
    calls: frozenset[KeyedCall] = frozenset()


class TraceLinks(NamedTuple):
    """The result of linking: session ids by trace, and the traces whose calls others repeat."""

    session_by_trace: dict[str, str]
    leaders: dict[str, str | None]


def position_of(observations: Sequence[Observation], conversation_id: str | None = None) -> Position:
    """Return a trace's position, given the conversation id that it records."""
    calls = keyed_calls(observations)
    placed = [
        o
        for o in ([] if conversation_id else observations)
        if isinstance(o, _WITH_DIGESTS) and o.digests is not None
    ]
    first = min(placed, key=lambda o: (o.span.start_ns, o.span.span_id), default=None)
    if first is None or first.digests is None:
        start_ns = min((call.start_ns for call in calls), default=0)
        return Position(start_ns, None, None, frozenset(), conversation_id, calls)
    return Position(
        start_ns=first.span.start_ns,
        history=first.digests.history,
        request=first.digests.with_request,
        digests=frozenset(
            digest for o in placed for digest in (o.digests[2:] if o.digests else ()) if digest
        ),
        calls=calls,
    )


def link_traces(store: Store, new: Mapping[str, Position]) -> TraceLinks:
    """Return the links that follow from positions: of new traces, and of derived ones that move.

    A trace belongs to the session whose traces, alone, had its history in their digests when it began. If a
    trace moves, the traces that continue it or repeat its calls move with it.
    """
    members = with_repeating(
        store,
        {
            trace_id: Member(p.start_ns, p.conversation_id, p.request is not None, p.calls)
            for trace_id, p in new.items()
        },
    )
    leaders = leaders_of(members)
    regrouped = {t for t, leader in leaders.items() if t not in new and leader != members[t].leader}
    before = _stored(store, "trace_id", {*new, *regrouped})
    positions = {trace_id: position for trace_id, position in new.items() if not leaders[trace_id]}
    stored: dict[str, str] = {}  # the sessions of derived traces that are linked again
    for trace_id in regrouped:
        if leaders[trace_id] is None:
            positions[trace_id] = _position(store, trace_id)
            stored[trace_id] = members[trace_id].session_id or trace_id
    positions = {trace_id: position for trace_id, position in positions.items() if position.request}
    links = _linked(
        store, {*new, *regrouped}, positions, stored, [position for _, position in before.values()]
    )
    for trace_id, leader in leaders.items():
        if leader is not None:
            of_leader = members[leader].conversation_id or links.get(leader) or stored.get(leader)
            session_id = of_leader or members[leader].session_id or leader
            if session_id != (members[trace_id].session_id or trace_id):
                links[trace_id] = session_id
    return TraceLinks({**_followers(store, links, leaders), **links}, leaders)


def _linked(
    store: Store,
    known: Collection[str],
    positions: dict[str, Position],
    stored: dict[str, str],
    old: Sequence[Position],
) -> dict[str, str]:
    """Return the session ids of the traces that move, given `positions` and the `old` ones of `known` traces.

    `stored` are the sessions of those among them that are derived. Both get the derived traces that are
    linked again.
    """
    links: dict[str, str] = {}
    if not positions and not old:
        return links

    def link_again(histories: Iterable[str | None], where: str = "true", after: int | None = None) -> None:
        for trace_id, (session_id, position) in _stored(store, "history", histories, where, after).items():
            if trace_id not in known and trace_id not in positions:
                positions[trace_id], stored[trace_id] = position, session_id

    affected = [*positions.values(), *old]
    link_again((digest for p in affected for digest in p.digests), _LATER, min(p.start_ns for p in affected))
    link_again(p.history for p in old)
    link_again((p.history for p in positions.values()), _LINKED)
    pending = set(positions)
    while pending:
        before_by_history, requests = _neighbours(store, known, positions, pending)
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


def _followers(store: Store, links: Mapping[str, str], leaders: Mapping[str, str | None]) -> dict[str, str]:
    """Return the sessions of the derived traces that repeat the calls of a trace that moves."""
    if not links:
        return {}
    rows = store.query(
        "SELECT trace_id, leader FROM derived.traces SEMI JOIN wanted USING (leader)",
        wanted=arrow_column("leader", sorted(links)),
    )
    return {trace_id: links[leader] for trace_id, leader in rows if trace_id not in leaders}


_LATER = "start_ns > $after"
_LINKED = "session_id <> trace_id"
_POSITIONS = (
    "SELECT trace_id, session_id, start_ns, history, request, "
    "(SELECT list(digest) FROM derived.digests WHERE digests.trace_id = traces.trace_id) FROM derived.traces"
)


def _stored(
    store: Store, column: str, values: Iterable[str | None], where: str = "true", after: int | None = None
) -> dict[str, tuple[str, Position]]:
    """Return the session and the position of the derived traces that have one of some values in a column.

    Those that repeat another trace's calls are left out.
    """
    wanted = sorted({value for value in values if value is not None})
    if not wanted:
        return {}
    rows = store.query(
        f"{_POSITIONS} SEMI JOIN wanted USING ({column}) "
        f"WHERE request IS NOT NULL AND leader IS NULL AND {where}",
        {} if after is None else {"after": after},
        wanted=arrow_column(column, wanted),
    )
    return {row[0]: (row[1], Position(row[2], row[3], row[4], frozenset(row[5] or ()))) for row in rows}


def _position(store: Store, trace_id: str) -> Position:
    """Return the position of a derived trace, which may repeat another one's calls."""
    ((_, _, start_ns, history, request, digests),) = store.query(
        f"{_POSITIONS} WHERE trace_id = $trace_id", {"trace_id": trace_id}
    )
    return Position(start_ns, history, request, frozenset(digests or ()))


def _neighbours(
    store: Store, known: Iterable[str], positions: Mapping[str, Position], pending: Iterable[str]
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
    others = arrow_column("trace_id", sorted({*known, *positions}))
    for digest, session_id, start_ns in store.query(
        "SELECT digest, session_id, min(start_ns) FROM derived.digests "
        "SEMI JOIN wanted USING (digest) ANTI JOIN known USING (trace_id) "
        "ANTI JOIN (SELECT trace_id FROM derived.traces WHERE leader IS NOT NULL) USING (trace_id) "
        "GROUP BY digest, session_id "
        "QUALIFY row_number() OVER (PARTITION BY digest ORDER BY min(start_ns)) <= 2",
        wanted=arrow_column("digest", sorted(histories)),
        known=others,
    ):
        traces.setdefault(digest, []).append((start_ns, "", session_id))
    for history, *two in store.query(
        "SELECT history, min(request), max(request) FROM derived.traces "
        "SEMI JOIN wanted USING (history) ANTI JOIN known USING (trace_id) WHERE leader IS NULL "
        "GROUP BY history",
        wanted=arrow_column("history", sorted(histories)),
        known=others,
    ):
        requests.setdefault(history, set()).update(two)
    for entries in traces.values():
        entries.sort()
    return traces, requests


_MOST_OF_ONE_ID = 100  # calls with one response id that a call is compared with, the latest before it


class KeyedCall(NamedTuple):
    """A model call with the id of its response; `scope` is that of its instrumentation.

    `provider` is whose API gave the id, None if that is not known.
    """

    call_key: str
    scope: str | None
    start_ns: int
    end_ns: int
    provider: str | None = None


class Member(NamedTuple):
    """A trace that may repeat another one's calls.

    `conversation_id` is the recorded id. A trace whose messages place it (`has_messages`) leads traces
    without messages. `session_id` and `leader` are the stored values, None for a new trace.
    """

    start_ns: int
    conversation_id: str | None
    has_messages: bool
    calls: frozenset[KeyedCall]
    session_id: str | None = None
    leader: str | None = None


def keyed_calls(observations: Iterable[Observation]) -> frozenset[KeyedCall]:
    """Return the model calls that have the id of a response."""
    return frozenset(
        KeyedCall(o.call_key, o.span.scope, o.span.start_ns, o.span.end_ns, provider_of_id(o.provider))
        for o in observations
        if isinstance(o, ModelCall) and o.call_key
    )


def leaders_of(members: Mapping[str, Member]) -> dict[str, str | None]:
    """Return for each trace the one whose calls it repeats, None if there is none.

    It is the trace with a conversation id, else the earliest of those with messages. Where several
    conversations have ids, no trace repeats another.
    """
    leaders: dict[str, str | None] = dict.fromkeys(members)
    for group in _groups({trace_id: member for trace_id, member in members.items() if member.calls}):
        named = [trace_id for trace_id in group if members[trace_id].conversation_id]
        if len({members[trace_id].conversation_id for trace_id in named}) > 1:
            leaders |= dict.fromkeys(group)
            continue
        leader = min(named or group, key=lambda t: (not members[t].has_messages, members[t].start_ns, t))
        leaders |= {t: None if t == leader or members[t].conversation_id else leader for t in group}
    return leaders


def _groups(members: Mapping[str, Member]) -> list[list[str]]:
    """Return the traces in groups that are connected by calls that two of them have."""
    group_by_trace = {trace_id: [trace_id] for trace_id in members}
    by_key: dict[str, list[tuple[KeyedCall, str]]] = {}
    for trace_id, member in members.items():
        for call in member.calls:
            by_key.setdefault(call.call_key, []).append((call, trace_id))
    for calls in by_key.values():
        calls.sort(key=lambda item: (item[0].start_ns, item[0].end_ns, item[1]))
        for number, (call, trace_id) in enumerate(calls):
            for earlier, other in calls[max(0, number - _MOST_OF_ONE_ID) : number]:
                if group_by_trace[other] is not group_by_trace[trace_id] and is_same(earlier, call):
                    joined = group_by_trace[other] + group_by_trace[trace_id]
                    group_by_trace |= dict.fromkeys(joined, joined)
    return list({id(group): group for group in group_by_trace.values()}.values())


def is_same(one: KeyedCall, other: KeyedCall) -> bool:
    """Return whether spans of different traces with one response id record the same call.

    They are of two instrumentations, and of one provider as far as is known. An id that comes again later is
    that of another call.
    """
    providers = {one.provider, other.provider} - {None}
    return overlap(one[2:4], other[2:4]) and one.scope != other.scope and len(providers) < 2


def with_repeating(store: Store, new: Mapping[str, Member]) -> dict[str, Member]:
    """Return new traces, and the derived ones that are connected with them by calls that both have."""
    members = dict(new)
    reached: Iterable[Member] = new.values()
    while calls := [call for member in reached for call in member.calls]:
        by_key: dict[str, list[KeyedCall]] = {}
        for call in calls:
            by_key.setdefault(call.call_key, []).append(call)
        stored = _stored_members(
            store,
            (
                trace_id
                for trace_id, call in _stored_with(store, by_key, members)
                if any(is_same(call, known) for known in by_key[call.call_key])
            ),
        )
        members |= stored
        reached = list(stored.values())
    return members


def _stored_with(store: Store, keys: Iterable[str], known: Iterable[str]) -> list[tuple[str, KeyedCall]]:
    rows = store.query(
        "SELECT trace_id, call_key, scope, start_ns, end_ns, provider FROM derived.keyed_calls "
        "SEMI JOIN wanted USING (call_key) ANTI JOIN known USING (trace_id)",
        wanted=arrow_column("call_key", sorted(keys)),
        known=arrow_column("trace_id", sorted(known)),
    )
    return [(row[0], KeyedCall(*row[1:])) for row in rows]


def _stored_members(store: Store, trace_ids: Iterable[str]) -> dict[str, Member]:
    wanted = sorted(set(trace_ids))
    if not wanted:
        return {}
    calls: dict[str, set[KeyedCall]] = {}
    for row in store.query(
        "SELECT trace_id, call_key, scope, start_ns, end_ns, provider FROM derived.keyed_calls "
        "SEMI JOIN wanted USING (trace_id)",
        wanted=arrow_column("trace_id", wanted),
    ):
        calls.setdefault(row[0], set()).add(KeyedCall(*row[1:]))
    rows = store.query(
        "SELECT trace_id, start_ns, conversation_id, request IS NOT NULL, session_id, leader "
        "FROM derived.traces SEMI JOIN wanted USING (trace_id)",
        wanted=arrow_column("trace_id", wanted),
    )
    return {
        row[0]: Member(row[1], row[2], row[3], frozenset(calls.get(row[0], ())), row[4], row[5])
        for row in rows
    }
