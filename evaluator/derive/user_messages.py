"""Several user messages under one topmost span: where each turn begins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from spangrade.converters.spans.observation import Exchanging, ModelCall, RunSpan, TurnSpan, Work
from spangrade.evaluator.derive.span_tree import Tree, of_kind, with_messages


def turn_starts(members: Sequence[Work], tops: Sequence[Work], tree: Tree) -> list[int]:
    """Return when the second and later turns of a group begin, in nanoseconds; none for one turn.

    A turn begins with a model call whose new message follows, in its history, the reply that the call before
    it gave, with another run of the same topmost agent, unless it has the same message and no more of them in
    its history, or with a span inside a run that stands for a message of the user. A prompt that a run made
    of its message, or of another agent's answer, is not one.
    """
    exchanging = with_messages(members)
    if any(isinstance(o, TurnSpan) for o in exchanging):
        return []
    asking = [o for o in exchanging if o.exchange.user_input]
    messages = {o.exchange.user_input for o in asking}
    if inside := {o.span.start_ns for o in asking if "of_user" in o.traits}:
        return sorted(inside)
    replies = _after_replies(members, tree) if len(messages) > 1 else ()
    return sorted({*replies, *_further_runs(members, tops)})


def times_asked(exchanging: Iterable[Exchanging], message: str) -> int | None:
    """Return how many messages of the user the histories that end with a message have; None if unknown."""
    exchanges = (o.exchange for o in exchanging if o.exchange.user_input == message)
    return max((one.user_messages for one in exchanges if one.user_messages), default=None)


def _after_replies(members: Sequence[Work], tree: Tree) -> Iterator[int]:
    before: ModelCall | None = None
    message: str | None = None
    for call in of_kind(ModelCall, members):
        if (
            before is not None
            and call.exchange.user_input not in (None, message)
            and before.span.end_ns <= call.span.start_ns
            and not before.exchange.tool_calls
            and (
                _same_text(call.exchange.previous_reply, before.exchange.response)
                or _gains_a_message(call, before)
            )
        ):
            yield _begin(call, before.span.end_ns, tree)
        message = call.exchange.user_input or message
        before = call


def _gains_a_message(call: ModelCall, before: ModelCall) -> bool:
    """Return whether a history has more messages of the user than that of a call without a recorded reply."""
    asked, again = before.exchange.user_messages, call.exchange.user_messages
    if before.exchange.response is not None or call.exchange.previous_reply is None:
        return False
    return asked is not None and again is not None and again > asked


def _further_runs(members: Sequence[Work], tops: Sequence[Work]) -> Iterator[int]:
    last: dict[str, RunSpan] = {}
    for top in of_kind(RunSpan, tops):
        if not top.is_agent or top.name is None:
            continue
        before = last.get(top.name)
        start_ns = top.span.start_ns
        if before is not None and before.span.end_ns <= start_ns and _is_further(members, before, top):
            yield start_ns
        last[top.name] = top


def _is_further(members: Sequence[Work], before: RunSpan, run: RunSpan) -> bool:
    """Return whether a run has another message than the one before, or the same message once more."""
    message = run.exchange.user_input
    if before.exchange.user_input is None or message is None:
        return before.exchange.user_input is message
    if before.exchange.user_input != message:
        return True
    asked, again = (times_asked(with_messages(_during(members, one)), message) for one in (before, run))
    return asked is not None and again is not None and again > asked


def _during(members: Sequence[Work], run: RunSpan) -> Sequence[Work]:
    first = bisect_left(members, run.span.start_ns, key=_start)
    return members[first : bisect_right(members, run.span.end_ns, first, key=_start)]


def _start(observation: Work) -> int:
    return observation.span.start_ns


def _begin(call: ModelCall, after_ns: int, tree: Tree) -> int:
    """Return the start of the topmost span around a call that began after a time."""
    at: Work = call
    while (above := tree.nearest(at)) is not None and above.span.start_ns >= after_ns:
        at = above
    return at.span.start_ns


def parts(members: Sequence[Work], starts: Sequence[int]) -> list[list[Work]]:
    """Return the members of each turn, given when the second and later ones begin."""
    divided: list[list[Work]] = [[] for _ in range(len(starts) + 1)]
    for member in members:
        divided[bisect_right(starts, member.span.start_ns)].append(member)
    return divided


def topmost(members: Sequence[Work], until_ns: int | None, tree: Tree) -> list[Work]:
    """Return the spans of a turn without an ancestor in it; one that goes on in the next turn is neither."""
    own = [o for o in members if until_ns is None or o.span.end_ns <= until_ns]
    nodes = {o.span.node for o in own}
    return [o for o in own if (above := tree.nearest(o)) is None or above.span.node not in nodes]


def _same_text(one: str | None, other: str | None) -> bool:
    return bool(one and other) and "".join(str(one).split()) == "".join(str(other).split())
