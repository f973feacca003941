"""Traces in which two instrumentations recorded the same model calls: they belong to one session.

The spans of one call in two traces share the id of the response, come from different instrumentations and ran
at the same time. An id alone is not enough: some servers give the same few ids again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spangrade.converters.spans.observation import ModelCall, Observation
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column

_MOST_OF_ONE_ID = 100  # calls with one response id that a call is compared with, the latest before it


class KeyedCall(NamedTuple):
    """A model call with the id of its response; `scope` is that of its instrumentation."""

    call_key: str
    scope: str | None
    start_ns: int
    end_ns: int
    output_tokens: int | None


class Member(NamedTuple):
    """A trace that may repeat another one's calls.

    `conversation_id` is the one that it records. A trace whose messages place it (`has_messages`) leads
    those without. `session_id` and `leader` are what the database has for it, None for a new trace.
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
        KeyedCall(o.call_key, o.span.scope, o.span.start_ns, o.span.end_ns, o.tokens.output_tokens)
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
    """Return whether spans of different traces with one response id record the same call."""
    both_ns = min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns)
    shorter_ns = min(one.end_ns - one.start_ns, other.end_ns - other.start_ns)
    tokens = {one.output_tokens, other.output_tokens} - {None}
    return both_ns >= 0 and 2 * both_ns >= shorter_ns and one.scope != other.scope and len(tokens) < 2


def with_repeating(store: Store, new: Mapping[str, Member]) -> dict[str, Member]:
    """Return new traces, and the derived ones that are connected with them by calls that both have."""
    members = dict(new)
    reached: Iterable[Member] = new.values()
    while calls := [call for member in reached for call in member.calls]:
        by_key: dict[str, list[KeyedCall]] = {}
        for call in calls:
            by_key.setdefault(call.call_key, []).append(call)
        stored = _stored(
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
        "SELECT trace_id, call_key, scope, start_ns, end_ns, output_tokens FROM derived.keyed_calls "
        "SEMI JOIN wanted USING (call_key) ANTI JOIN known USING (trace_id)",
        wanted=arrow_column("call_key", sorted(keys)),
        known=arrow_column("trace_id", sorted(known)),
    )
    return [(row[0], KeyedCall(*row[1:])) for row in rows]


def _stored(store: Store, trace_ids: Iterable[str]) -> dict[str, Member]:
    wanted = sorted(set(trace_ids))
    if not wanted:
        return {}
    calls: dict[str, set[KeyedCall]] = {}
    for row in store.query(
        "SELECT trace_id, call_key, scope, start_ns, end_ns, output_tokens FROM derived.keyed_calls "
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
