"""Where a turn begins: which observations follow from one user message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.derive.timing import Interval, length_s
from spangrade.evaluator.session import Turn

_STARTS_A_TURN = frozenset({"turn", "workflow", "agent", "llm"})


@dataclass(slots=True)
class Group:
    """The observations under one topmost span, and the time that this span took."""

    members: list[Observation] = field(default_factory=list)
    tops: list[Observation] = field(default_factory=list)

    @property
    def calls(self) -> list[Observation]:
        """The model calls, in the order in which they started."""
        return [o for o in self.members if o.kind == "llm"]


def grouped(tree: Tree) -> list[Group]:
    """Return one group a turn, in order, each with all that followed from one user message.

    A turn is what happened under one topmost span; spans that name the same missing parent stand under
    one. A group whose first model call was fed with the result of a tool, and not by the user, goes on
    with the turn before it: clients of a model make one trace a call.
    """
    groups: dict[tuple[str, str], Group] = {}
    keys: dict[tuple[str, str], tuple[str, str]] = {}
    for seen in tree.ordered:
        if seen.kind == "other":
            continue
        node = (seen.trace_id, seen.span_id)
        above = tree.nearest(seen)
        if above is None or (seen.kind == "turn" and above.kind != "turn"):
            keys[node] = (seen.trace_id, _root(tree, seen))
            groups.setdefault(keys[node], Group()).tops.append(seen)
        else:
            # An ancestor that started after its child (a clock that runs ahead) has no key yet.
            keys[node] = keys.get((above.trace_id, above.span_id)) or (above.trace_id, above.span_id)
        groups.setdefault(keys[node], Group()).members.append(seen)
    turns: list[Group] = []
    for group in sorted(groups.values(), key=lambda g: g.members[0].start_ns):
        if turns and _goes_on(turns[-1], group):
            turns[-1].members += group.members
            turns[-1].tops += group.tops
        else:
            turns.append(group)
    return turns


def _root(tree: Tree, top: Observation) -> str:
    """Return the id that topmost spans of one turn share: the missing parent's, else the span's own."""
    at: Observation | None = top
    while at is not None:
        root, at = at, tree.parent(at)
    return root.parent_span_id or top.span_id


def _goes_on(turn: Group, group: Group) -> bool:
    same_trace = turn.members[-1].trace_id == group.members[0].trace_id
    if not any(o.kind in _STARTS_A_TURN for o in group.members):
        return True
    if any(o.kind == "turn" for o in group.members):
        return False
    continues = next((o.continues for o in group.members if o.continues is not None), None)
    if continues is not None:
        return continues
    return same_trace and all(o.kind == "llm" for o in group.tops)


def turn_of(index: int, group: Group) -> Turn:
    """Return the turn that a group makes."""
    tops = group.tops or group.members
    spans: list[Interval] = [(o.start_ns, o.end_ns) for o in tops]
    return Turn(
        index,
        _user_input(group),
        _response(group),
        min(start for start, _ in spans),
        max(end for _, end in spans),
        length_s(spans) if all(o.timed for o in tops) else None,
        tuple(dict.fromkeys(o.trace_id for o in group.members)),
    )


def _user_input(group: Group) -> str | None:
    turns = [o for o in group.members if o.kind == "turn"]
    for candidates in (turns, group.tops, group.calls, group.members):
        for seen in candidates:
            if seen.user_input is not None:
                return seen.user_input
    return None


def _response(group: Group) -> str | None:
    """Return the text of the call that started last: one that hands over ends after all that follows.

    Where that only wraps what the run returned (`Final Answer: …`), it is what the run returned.
    """
    for seen in group.members:
        if seen.kind == "turn" and seen.response is not None:
            return seen.response
    calls: Sequence[Observation] = group.calls
    said = calls[-1].response if calls else None
    returned = next((o.response for o in reversed(group.tops) if o.kind != "llm" and o.response), None)
    return returned if said is None or (returned and returned in said) else said
