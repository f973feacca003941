"""Several user messages under one topmost span: where each turn begins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.span_tree import Tree, node_of


def turn_starts(members: Sequence[Observation], tops: Sequence[Observation], tree: Tree) -> list[int]:
    """Return when the second and later turns of a group begin, in nanoseconds; none for one turn.

    A turn begins with a model call whose new message follows, in its history, the reply that the call before
    it gave, with another run of the same topmost agent, unless it has the same message and no more of them in
    its history, or with a span inside a run that stands for a message of the user. A prompt that a run made
    of its message, or of another agent's answer, is not one.
    """
    if any(o.kind == "turn" for o in members):
        return []
    messages = {o.user_input for o in members if o.user_input}
    if inside := {o.start_ns for o in members if o.of_user and o.user_input}:
        return sorted(inside)
    replies = _after_replies(members, tree) if len(messages) > 1 else ()
    return sorted({*replies, *_further_runs(members, tops)})


def times_asked(members: Sequence[Observation], message: str) -> int | None:
    """Return how many messages of the user the histories that end with a message have; None if unknown."""
    numbers = [o.user_messages for o in members if o.user_messages and o.user_input == message]
    return max(numbers, default=None)


def _after_replies(members: Sequence[Observation], tree: Tree) -> Iterator[int]:
    before: Observation | None = None
    message: str | None = None
    for call in members:
        if call.kind != "llm":
            continue
        if (
            before is not None
            and call.user_input not in (None, message)
            and before.end_ns <= call.start_ns
            and not before.tool_calls
            and _same_text(call.previous_reply, before.response)
        ):
            yield _begin(call, before.end_ns, tree)
        message = call.user_input or message
        before = call


def _further_runs(members: Sequence[Observation], tops: Sequence[Observation]) -> Iterator[int]:
    last: dict[str, Observation] = {}
    for top in tops:
        if top.kind != "agent" or top.name is None:
            continue
        before = last.get(top.name)
        if before is not None and before.end_ns <= top.start_ns and _is_further(members, before, top):
            yield top.start_ns
        last[top.name] = top


def _is_further(members: Sequence[Observation], before: Observation, run: Observation) -> bool:
    """Return whether a run has another message than the one before, or the same message once more."""
    if before.user_input is None or run.user_input is None:
        return before.user_input is run.user_input
    if before.user_input != run.user_input:
        return True
    asked, again = (times_asked(_during(members, one), run.user_input) for one in (before, run))
    return asked is not None and again is not None and again > asked


def _during(members: Sequence[Observation], run: Observation) -> Sequence[Observation]:
    first = bisect_left(members, run.start_ns, key=_start)
    return members[first : bisect_right(members, run.end_ns, first, key=_start)]


def _start(observation: Observation) -> int:
    return observation.start_ns


def _begin(call: Observation, after_ns: int, tree: Tree) -> int:
    """Return the start of the topmost span around a call that began after a time."""
    at = call
    while (above := tree.nearest(at)) is not None and above.start_ns >= after_ns:
        at = above
    return at.start_ns


def parts(members: Sequence[Observation], starts: Sequence[int]) -> list[list[Observation]]:
    """Return the members of each turn, given when the second and later ones begin."""
    divided: list[list[Observation]] = [[] for _ in range(len(starts) + 1)]
    for member in members:
        divided[bisect_right(starts, member.start_ns)].append(member)
    return divided


def topmost(members: Sequence[Observation], until_ns: int | None, tree: Tree) -> list[Observation]:
    """Return the spans of a turn without an ancestor in it; one that goes on in the next turn is neither."""
    own = [o for o in members if until_ns is None or o.end_ns <= until_ns]
    nodes = {node_of(o) for o in own}
    return [o for o in own if (above := tree.nearest(o)) is None or node_of(above) not in nodes]


def _same_text(one: str | None, other: str | None) -> bool:
    return bool(one and other) and "".join(str(one).split()) == "".join(str(other).split())
