"""Where a turn begins: which observations follow from one user message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.span_tree import Node, Tree, node_of
from spangrade.evaluator.derive.timing import Interval, length_s
from spangrade.evaluator.session import Turn

# What frameworks record in place of a message: an identifier (a UUID, digits of a hash), an empty value.
_PLACEHOLDER = re.compile(
    r"\s*(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=\S*\d)[0-9a-f]{24,64}|(?=\S*\d)[0-9A-HJKMNP-TV-Z]{26}|"
    r"\{\}|\[\]|None|null|undefined|N/A|<[^<>]* object at 0x[0-9a-f]+>|[<\[]?redacted[>\]]?)\s*",
    re.IGNORECASE,
)
_STARTS_A_TURN = frozenset({"turn", "workflow", "agent", "llm"})


@dataclass(slots=True)
class Group:
    """The observations of one turn, in order; `tops` are those without an ancestor among them."""

    members: list[Observation] = field(default_factory=list)
    tops: list[Observation] = field(default_factory=list)

    @property
    def calls(self) -> list[Observation]:
        """The model calls, in the order in which they started."""
        return [o for o in self.members if o.kind == "llm"]


def turn_groups(tree: Tree) -> list[Group]:
    """Return one group per turn, in order, each with all that followed from one user message.

    A turn is what happened under one topmost span; topmost spans that name the same missing parent belong
    together. A group whose first model call got the result of a tool, not a message of the user, continues
    the turn before it: model clients make one trace per call.
    """
    groups: dict[Node, Group] = {}
    keys: dict[Node, Node] = {}
    for observation in tree.ordered:
        if observation.kind == "other":
            continue
        node = node_of(observation)
        ancestor = tree.nearest(observation)
        if ancestor is None or (observation.kind == "turn" and ancestor.kind != "turn"):
            keys[node] = (observation.trace_id, _root_id(tree, observation))
            groups.setdefault(keys[node], Group()).tops.append(observation)
        else:
            # An ancestor that started after its child (a clock that runs ahead) has no key yet.
            keys[node] = keys.get(node_of(ancestor)) or node_of(ancestor)
        groups.setdefault(keys[node], Group()).members.append(observation)
    turns: list[Group] = []
    for group in sorted(groups.values(), key=lambda g: g.members[0].start_ns):
        if turns and _continues(turns[-1], group):
            turns[-1].members += group.members
            turns[-1].tops += group.tops
        else:
            turns.append(group)
    return turns


def _root_id(tree: Tree, top: Observation) -> str:
    """Return the id that topmost spans of one turn share: the missing parent's, else the span's own."""
    return tree.top(top).parent_span_id or top.span_id


def _continues(turn: Group, group: Group) -> bool:
    same_trace = turn.members[-1].trace_id == group.members[0].trace_id
    if not any(o.kind in _STARTS_A_TURN for o in group.members):
        return True
    if any(o.kind == "turn" for o in group.members):
        return False
    continues = next((o.continues for o in group.members if o.continues is not None), None)
    if continues is not None:
        return continues
    return same_trace and all(o.kind == "llm" for o in group.tops)


def turn_of(number: int, group: Group) -> Turn:
    """Return the turn of a group of observations."""
    tops = group.tops or group.members
    spans: list[Interval] = [(o.start_ns, o.end_ns) for o in tops]
    return Turn(
        turn=number,
        user_input=_user_input(group),
        final_response=_final_response(group),
        start_ns=min(start for start, _ in spans),
        end_ns=max(end for _, end in spans),
        latency_s=length_s(spans) if all(o.timed for o in tops) else None,
        trace_ids=tuple(dict.fromkeys(o.trace_id for o in group.members)),
        failed=max(tops, key=lambda o: o.end_ns).failed,
    )


def _user_input(group: Group) -> str | None:
    turns = [o for o in group.members if o.kind == "turn"]
    for candidates in (turns, group.tops, group.calls, group.members):
        for observation in candidates:
            if observation.user_input is not None and not _PLACEHOLDER.fullmatch(observation.user_input):
                return observation.user_input
    return None


def _final_response(group: Group) -> str | None:
    """Return the text of the model call that started last: a call that hands off ends after what follows it.

    Where that text only wraps what the run returned (`Final Answer: …`), return what the run returned.
    """
    for observation in group.members:
        if observation.kind == "turn" and observation.response is not None:
            return observation.response
    calls: Sequence[Observation] = group.calls
    text = calls[-1].response if calls else None
    if text is not None and not text.strip():  # an earlier text has the words
        text = next((o.response for o in reversed(calls) if o.response and o.response.strip()), text)
    returned = next((o.response for o in reversed(group.tops) if o.kind != "llm" and o.response), None)
    return returned if text is None or (returned and returned in text) else text
