"""Where a turn begins: which observations follow from one user message."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.handoffs import handoff_target, is_handoff, normalized_name
from spangrade.evaluator.derive.span_tree import Node, Tree, node_of
from spangrade.evaluator.derive.timing import Interval, length_s
from spangrade.evaluator.derive.user_messages import parts, times_asked, topmost, turn_starts
from spangrade.evaluator.session import Turn

# What frameworks record in place of a message: an identifier (a UUID, digits of a hash), an empty value.
_PLACEHOLDER = re.compile(
    r"\s*(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=\S*\d)[0-9a-f]{24,64}|(?=\S*\d)[0-9A-HJKMNP-TV-Z]{26}|"
    r"\{\}|\[\]|None|null|undefined|N/A|<[^<>]* object at 0x[0-9a-f]+>|[<\[]?redacted[>\]]?)\s*",
    re.IGNORECASE,
)
_LAST = 100  # spans of a turn that are looked at for its last tool or model call
_STARTS_A_TURN = frozenset({"turn", "workflow", "agent", "llm"})


@dataclass(slots=True)
class Group:
    """The observations of one turn, in order; `tops` are those without an ancestor among them.

    With `around_turns` the others are runs that hold spans of turns: they are not a turn of their own.
    """

    members: list[Observation] = field(default_factory=list)
    tops: list[Observation] = field(default_factory=list)
    around_turns: bool = False
    end_ns: int = 0

    @property
    def calls(self) -> list[Observation]:
        """The model calls, in the order in which they started."""
        return [o for o in self.members if o.kind == "llm"]


def turn_groups(tree: Tree) -> list[Group]:
    """Return one group per turn, in order, each with all that followed from one user message.

    A turn is what happened under one topmost span; topmost spans that name the same missing parent belong
    together. A group whose first model call got the result of a tool, not a message of the user, continues
    the turn before it: model clients make one trace per call. So does one that runs during it. Several user
    messages under one topmost span are as many turns. Tools alone, what a protocol records, and a run around
    spans of turns are not a turn: they belong to the turn before them, or to the first.
    """
    groups: dict[Node, Group] = defaultdict(Group)
    keys: dict[Node, Node] = {}
    inside: dict[Node, list[int]] = defaultdict(list)  # when the turns inside a run begin
    for observation in tree.ordered:
        if observation.kind == "other":
            continue
        node = node_of(observation)
        ancestor = tree.nearest(observation)
        if ancestor is None or (observation.kind == "turn" and ancestor.kind != "turn"):
            keys[node] = (observation.trace_id, _root_id(tree, observation))
            groups[keys[node]].tops.append(observation)
            if ancestor is not None:
                inside[node_of(ancestor)].append(observation.start_ns)
        else:
            # An ancestor that started after its child (a clock that runs ahead) has no key yet.
            keys[node] = keys.get(node_of(ancestor)) or node_of(ancestor)
        groups[keys[node]].members.append(observation)
    turns: list[Group] = []
    separate = [part for group in groups.values() for part in _divided(group, inside, tree)]
    for group in sorted(separate, key=lambda g: g.members[0].start_ns):
        group.end_ns = max((o.end_ns for o in group.tops), default=0)
        if turns and (_continues(turns[-1], group) or not _starts_a_turn(turns[-1])):
            _join(turns[-1], group)
        else:
            turns.append(group)
    return turns


def _starts_a_turn(group: Group) -> bool:
    if not group.around_turns:
        return any(o.kind in _STARTS_A_TURN and not o.of_protocol for o in group.members)
    return bool(group.calls) or any(o.user_input or o.response for o in group.tops)


def _divided(group: Group, inside: Mapping[Node, Sequence[int]], tree: Tree) -> list[Group]:
    """Return the groups of the user messages in one, or of what runs between the turns inside it.

    It is the group itself if it has one message.
    """
    around = sorted(start_ns for o in group.members for start_ns in inside.get(node_of(o), ()))
    starts = around or turn_starts(group.members, group.tops, tree)
    if not starts:
        return [group]
    divided = zip(parts(group.members, starts), [*starts, None], strict=True)
    return [
        Group(
            members,
            topmost([o for o in members if node_of(o) not in inside], until_ns, tree),
            around_turns=bool(around),
        )
        for members, until_ns in divided
        if members
    ]


def _join(turn: Group, group: Group) -> None:
    overlap = group.members[0].start_ns < turn.members[-1].start_ns
    turn.members += group.members
    turn.tops += group.tops
    turn.end_ns = max(turn.end_ns, group.end_ns)
    if overlap:
        turn.members.sort(key=lambda o: o.start_ns)


def _root_id(tree: Tree, top: Observation) -> str:
    """Return the id that topmost spans of one turn share: the missing parent's, else the root's of runs.

    Each call of a model that is not in a run is apart: its messages tell whether it continues a turn. So is
    what stands for one message of the user.
    """
    if top.kind == "turn":
        return top.span_id
    root = tree.top(top)
    return root.parent_span_id or (root.span_id if top.kind in {"agent", "workflow"} else top.span_id)


def _continues(turn: Group, group: Group) -> bool:
    same_trace = turn.members[-1].trace_id == group.members[0].trace_id
    if not _starts_a_turn(group):
        return True
    if any(o.kind == "turn" for o in group.members):
        return False
    if same_trace and _is_within(turn, group):
        return True
    if _asks_again(turn, group):
        return False
    if _is_during(turn, group) or _is_handed_over(turn, group):
        return True
    # A run's own input may be its final history, which ends with what its tools returned.
    continues = next(
        (o.continues for o in chain(group.calls, group.members) if o.continues is not None), None
    )
    if continues is not None:
        return continues or _is_unanswered(turn, group)
    return same_trace and all(o.kind == "llm" for o in group.tops)


def _is_within(turn: Group, group: Group) -> bool:
    return group.members[0].start_ns < turn.end_ns and group.end_ns <= turn.end_ns


def _is_during(turn: Group, group: Group) -> bool:
    """Return whether a group begins during a turn, with its message or none of its own."""
    if not group.members[0].start_ns < turn.end_ns:
        return False
    message = _user_input(group)
    return message is None or message == _user_input(turn)


def _asks_again(turn: Group, group: Group) -> bool:
    """Return whether a group has the message of a turn once more, after it in its history.

    A call that is made again has the history of the call before.
    """
    message = _user_input(group)
    if message is None or message != _user_input(turn):
        return False
    before, now = times_asked(turn.members, message), times_asked(group.members, message)
    return before is not None and now is not None and now > before


def _is_handed_over(turn: Group, group: Group) -> bool:
    """Return whether a group begins with the agent to which the turn's last tool handed over."""
    agent = next((o.name for o in group.members if o.kind == "agent" and o.name), None)
    if agent is None:
        return False
    targets = (normalized_name(target) for target in _last_targets(turn))
    return normalized_name(agent) in targets and _user_input(group) in (None, _user_input(turn))


def _last_targets(turn: Group) -> Iterator[str]:
    """Yield the agents to which the turn's last tool, or its last model call, handed over."""
    newest = list(islice(reversed(turn.members), _LAST))
    last = next((o for o in newest if o.kind in {"tool", "handoff"}), None)
    if last is not None and (last.kind == "handoff" or last.handoff_to or is_handoff(last.name or "")):
        yield last.handoff_to or handoff_target(last.name or "", last.arguments) or ""
    call = next((o for o in newest if o.kind == "llm"), None)
    for requested in call.tool_calls if call is not None else ():
        if requested.name and is_handoff(requested.name):
            yield handoff_target(requested.name, requested.arguments) or ""


def _is_unanswered(turn: Group, group: Group) -> bool:
    """Return whether a group has the message of a turn whose last model call gave no answer."""
    last = next((o for o in islice(reversed(turn.members), _LAST) if o.kind == "llm"), None)
    if last is None or last.response or last.trace_id == group.members[0].trace_id:
        return False
    message = _user_input(group)
    return message is not None and message == _user_input(turn)


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
    texts = (text for text in _texts_of_user(group) if text is not None)
    chosen = next((text for text in texts if not _PLACEHOLDER.fullmatch(text)), None)
    return chosen and _without_template(chosen, (o.run_input for o in group.tops))


def _texts_of_user(group: Group) -> Iterator[str | None]:
    """Yield what may be the user's message, the most certain first."""
    yield from (o.user_input for o in group.members if o.kind == "turn")
    yield from (o.user_input for o in group.tops)
    yield from (o.run_input for o in group.tops)
    yield from (o.user_input for o in chain(group.calls, group.members))


def _without_template(chosen: str, given: Iterable[str | None]) -> str:
    """Return the text that a run was given, where a framework put it at the end of a template of its own."""
    for text in given:
        if (
            text
            and text.strip()
            and chosen != text
            and chosen.endswith((f" {text}", f"\n{text}", f":{text}"))
        ):
            return text
    return chosen


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
    runs = [o for o in reversed(group.tops) if o.kind != "llm"]
    returned = next(
        (reply for o in runs if (reply := o.response or o.run_output) and not _is_error(o, reply)), None
    )
    return (returned or text) if not text or (returned and returned in text) else text


def _is_error(run: Observation, reply: str) -> bool:
    """Return whether what a failed run returned only tells of its failure."""
    return run.failed and run.error is not None and run.error in reply
