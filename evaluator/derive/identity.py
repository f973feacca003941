"""Doubts that a session is one whole conversation, and one only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from spangrade.converters.spans.observation import NO_EXCHANGE, ModelCall
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.derive.turns import Group

IdentityDoubt = Literal["continues", "reused"]

_LONG_NS = 24 * 3600 * 10**9  # a person who comes back the same day goes on


def identity_doubt(
    id_source: Literal["conversation", "trace"], tree: Tree, groups: Sequence[Group]
) -> IdentityDoubt | None:
    """Return the doubt about a session's identity, None if there is none.

    `continues`: it has no conversation id and its first request repeats messages, or names a response, of
    which no trace is known. `reused`: its conversation id came again more than a day later with a request
    that repeats nothing of what was said before, in a session whose requests do so at other times, or has no
    other requests that could.
    """
    if id_source == "trace":
        first = next((call for call in tree.model_calls if call.digests is not None), None)
        return "continues" if first and first.digests and first.digests.history is not None else None
    return "reused" if _is_reused(groups) else None


def _is_reused(groups: Sequence[Group]) -> bool:
    again = False
    for before, after in pairwise(groups):
        repeats = _repeats(after)
        if after.members[0].span.start_ns - before.end_ns > _LONG_NS:
            again = again or repeats is False
        elif repeats is False:  # the conversation is kept by a server
            return False
    return again


def _repeats(group: Group) -> bool | None:
    """Return whether the first request of a turn repeats earlier messages; None if it is not recorded."""
    first = next(iter(group.calls), None)
    exchange = first.exchange if first is not None else NO_EXCHANGE
    if first is None or not exchange.user_messages:
        return None
    return exchange.user_messages > 1 or bool(
        exchange.previous_reply or exchange.repeated_calls or _continues(first)
    )


def _continues(call: ModelCall) -> bool:
    return bool(call.exchange.continues or (call.digests and call.digests.history))
