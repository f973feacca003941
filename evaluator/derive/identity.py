"""What makes it doubtful that a session is one whole conversation, and one only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.derive.turns import Group

IdentityDoubt = Literal["continues", "reused"]

_LONG_NS = 24 * 3600 * 10**9  # a person who comes back the same day goes on


def identity_doubt(
    id_source: Literal["conversation", "trace"], tree: Tree, groups: Sequence[Group]
) -> IdentityDoubt | None:
    """Return what makes a session's identity doubtful, if anything does.

    `continues`: it has no conversation id and its first request repeats messages, or names a response, of
    which no trace is known. `reused`: its conversation id came again more than a day later with a request
    that repeats nothing of what was said before, in a session whose requests do so at other times, or has no
    other requests that could.
    """
    if id_source == "trace":
        first = next((o for o in tree.ordered if o.kind == "llm" and o.digests is not None), None)
        return "continues" if first and first.digests and first.digests.history is not None else None
    return "reused" if _is_reused(groups) else None


def _is_reused(groups: Sequence[Group]) -> bool:
    again = False
    for before, after in pairwise(groups):
        repeats = _repeats(after)
        if after.members[0].start_ns - before.end_ns > _LONG_NS:
            again = again or repeats is False
        elif repeats is False:  # the conversation is kept by a server
            return False
    return again


def _repeats(group: Group) -> bool | None:
    """Return whether the first request of a turn repeats what was said before; None if it is not recorded."""
    first = next(iter(group.calls), None)
    if first is None or not first.user_messages:
        return None
    return first.user_messages > 1 or bool(first.previous_reply or first.repeated_calls or _continues(first))


def _continues(call: Observation) -> bool:
    return bool(call.continues or (call.digests and call.digests.history))
