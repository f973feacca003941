"""Where a turn begins: which observations follow from one user message."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from spangrade.converters.spans import values
from spangrade.converters.spans.observation import (
    Exchanging,
    Handoff,
    ModelCall,
    Observation,
    RunSpan,
    Structure,
    ToolUse,
    Traits,
    TurnSpan,
    Work,
)
from spangrade.converters.spans.parts import is_answer
from spangrade.evaluator.derive.handoffs import handoff_target, is_handoff, normalized_name
from spangrade.evaluator.derive.span_tree import WITH_MESSAGES, Node, Tree, of_kind, with_messages
from spangrade.evaluator.derive.timing import Interval, length_s
from spangrade.evaluator.session import Turn

# What frameworks record in place of a message: an identifier (a UUID, digits of a hash), an empty value.
_PLACEHOLDER = re.compile(
    r"\s*(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=\S*\d)[0-9a-f]{24,64}|(?=\S*\d)[0-9A-HJKMNP-TV-Z]{26}|"
    r"\{\}|\[\]|None|null|undefined|N/A|<[^<>]* object at 0x[0-9a-f]+>)\s*",
    re.IGNORECASE,
)
_LAST = 100  # spans of a turn that are looked at for its last tool or model call


_RUNS = (RunSpan, TurnSpan)
_NOT_OF_AGENT: Traits = frozenset({"in_check", "of_protocol"})


@dataclass(slots=True)
class Group:
    """The observations of one turn, in order, also by kind; `tops` are those without an ancestor among them.

    `exchanging` are those that may record messages. With `around_turns` the others are runs that hold spans
    of turns: they are not a turn of their own. What was found out of it is kept until another joins it.
    """

    members: list[Work] = field(default_factory=list)
    tops: list[Work] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    tools: list[ToolUse] = field(default_factory=list)
    turns: list[TurnSpan] = field(default_factory=list)
    exchanging: list[Exchanging] = field(default_factory=list)
    around_turns: bool = False
    end_ns: int = 0
    _input: tuple[str | None] | None = None
    _starts: bool | None = None

    @property
    def user_input(self) -> str | None:
        """The message of the user."""
        if self._input is None:
            self._input = (_user_input(self),)
        return self._input[0]

    @property
    def starts_a_turn(self) -> bool:
        """Whether a turn can begin with it."""
        if self._starts is None:
            self._starts = _starts_a_turn(self)
        return self._starts

    @property
    def runs(self) -> list[RunSpan | TurnSpan]:
        """The topmost runs, and the spans of turns."""
        return [o for o in self.tops if isinstance(o, _RUNS)]

    def add(self, observation: Work) -> None:
        """Add the next observation."""
        self.members.append(observation)
        if isinstance(observation, ModelCall):
            self.calls.append(observation)
        elif isinstance(observation, ToolUse):
            self.tools.append(observation)
        elif isinstance(observation, TurnSpan):
            self.turns.append(observation)
        if isinstance(observation, WITH_MESSAGES):
            self.exchanging.append(observation)

    def join(self, other: Group) -> None:
        """Add the observations of a group that follows, or that runs during this one."""
        overlap = other.members[0].span.start_ns < self.members[-1].span.start_ns
        self.tops += other.tops
        self.end_ns = max(self.end_ns, other.end_ns)
        self.members += other.members
        self.calls += other.calls
        self.tools += other.tools
        self.turns += other.turns
        self.exchanging += other.exchanging
        self._input = self._starts = None
        if overlap:
            for by_kind in (self.members, self.calls, self.tools, self.turns, self.exchanging):
                by_kind.sort(key=_start_ns)


def _start_ns(observation: Work) -> int:
    return observation.span.start_ns


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
        if isinstance(observation, Structure):
            continue
        node = observation.span.node
        ancestor = tree.nearest(observation)
        if ancestor is None or (isinstance(observation, TurnSpan) and not isinstance(ancestor, TurnSpan)):
            keys[node] = (observation.span.trace_id, _root_id(tree, observation))
            groups[keys[node]].tops.append(observation)
            if ancestor is not None:
                inside[ancestor.span.node].append(observation.span.start_ns)
        else:
            # An ancestor that started after its child (a clock that runs ahead) has no key yet.
            keys[node] = keys.get(ancestor.span.node) or ancestor.span.node
        groups[keys[node]].add(observation)
    turns: list[Group] = []
    separate = [part for group in groups.values() for part in _divided(group, inside, tree)]
    for group in sorted(separate, key=lambda g: g.members[0].span.start_ns):
        group.end_ns = max((o.span.end_ns for o in group.tops), default=0)
        if turns and (_continues(turns[-1], group) or not turns[-1].starts_a_turn):
            turns[-1].join(group)
        else:
            turns.append(group)
    return turns


def _starts_a_turn(group: Group) -> bool:
    if not group.around_turns:
        return any(_NOT_OF_AGENT.isdisjoint(o.traits) for o in group.exchanging)
    return bool(group.calls) or any(
        o.exchange.user_input or o.exchange.response for o in with_messages(group.tops)
    )


def _divided(group: Group, inside: Mapping[Node, Sequence[int]], tree: Tree) -> list[Group]:
    """Return the groups of the user messages in a group, or of the runs between the turns inside it.

    It is the group itself if it has one message.
    """
    around = sorted(start_ns for o in group.members for start_ns in inside.get(o.span.node, ()))
    starts = around or turn_starts(group.members, group.tops, tree)
    if not starts:
        return [group]
    divided = zip(parts(group.members, starts), [*starts, None], strict=True)
    separate = []
    for members, until_ns in divided:
        if members:
            part = Group(around_turns=bool(around))
            part.tops = topmost([o for o in members if o.span.node not in inside], until_ns, tree)
            for member in members:
                part.add(member)
            separate.append(part)
    return separate


def _root_id(tree: Tree, top: Work) -> str:
    """Return the id that topmost spans of one turn share: the missing parent's, else the root's of runs.

    Each call of a model that is not in a run is apart: its messages tell whether it continues a turn. So is
    what stands for one message of the user.
    """
    if isinstance(top, TurnSpan):
        return top.span.span_id
    root = tree.top(top).span
    return root.parent_span_id or (root.span_id if isinstance(top, RunSpan) else top.span.span_id)


def _continues(turn: Group, group: Group) -> bool:
    same_trace = turn.members[-1].span.trace_id == group.members[0].span.trace_id
    if not group.starts_a_turn:
        return True
    if group.turns:
        return _is_same_utterance(turn, group)
    if same_trace and _is_within(turn, group):
        return True
    if _asks_again(turn, group):
        return False
    if _is_during(turn, group) or _is_handed_over(turn, group):
        return True
    if _has_its_answer(turn, group) or _resumes(turn, group):
        return True
    # A run's own input may be its final history, which ends with what its tools returned.
    exchanges = (o.exchange for o in chain(group.calls, group.exchanging))
    continues = next((one.continues for one in exchanges if one.continues is not None), None)
    if continues is not None:
        return continues or _is_unanswered(turn, group)
    return same_trace and all(isinstance(o, ModelCall) for o in group.tops)


def _is_same_utterance(turn: Group, group: Group) -> bool:
    """Return whether turns of a voice stack have one message of the user, which is in no history once more.

    Such a stack begins a turn after a pause, as when a tool takes long.
    """
    message = group.user_input
    if message is None or message != turn.user_input:
        return False
    if not all("of_voice" in o.traits for o in (*turn.turns, *group.turns)):
        return False
    return times_asked(turn.exchanging, message) == times_asked(group.exchanging, message)


def _resumes(turn: Group, group: Group) -> bool:
    """Return whether a group without a message runs a tool, by its id, that a turn requested and left."""
    if group.user_input is not None:
        return False
    open_ids = {call.call_id for o in turn.exchanging for call in o.exchange.tool_calls if call.call_id}
    if not open_ids:
        return False
    open_ids -= {tool.call_id for tool in turn.tools}
    open_ids -= {result.call_id for o in turn.exchanging for result in o.exchange.tool_results}
    return any(tool.call_id in open_ids for tool in group.tools)


def _is_within(turn: Group, group: Group) -> bool:
    return group.members[0].span.start_ns < turn.end_ns and group.end_ns <= turn.end_ns


def _is_during(turn: Group, group: Group) -> bool:
    """Return whether a group begins during a turn, with its message or none of its own."""
    if not group.members[0].span.start_ns < turn.end_ns:
        return False
    message = group.user_input
    return message is None or message == turn.user_input


def _asks_again(turn: Group, group: Group) -> bool:
    """Return whether a group has the message of a turn once more, after it in its history.

    A call that is made again has the history of the call before.
    """
    message = group.user_input
    if message is None or message != turn.user_input:
        return False
    before, now = times_asked(turn.exchanging, message), times_asked(group.exchanging, message)
    return before is not None and now is not None and now > before


def _has_its_answer(turn: Group, group: Group) -> bool:
    """Return whether a group begins with the turn's message and, after it in its history, its last answer."""
    last = next((o for o in islice(reversed(turn.members), _LAST) if isinstance(o, ModelCall)), None)
    if last is None or last.exchange.response is None or group.user_input != turn.user_input:
        return False
    said = next((o.exchange.reply_since for o in group.exchanging if o.exchange.user_input), None)
    return _same_text(said, last.exchange.response)


def _is_handed_over(turn: Group, group: Group) -> bool:
    """Return whether a group begins with the agent to which the turn's last tool handed over."""
    runs = (o for o in group.members if isinstance(o, RunSpan))
    agent = next((o.name for o in runs if o.is_agent and o.name), None)
    if agent is None:
        return False
    targets = (normalized_name(target) for target in _last_targets(turn))
    return normalized_name(agent) in targets and group.user_input in (None, turn.user_input)


def _last_targets(turn: Group) -> Iterator[str]:
    """Yield the agents to which the turn's last tool, or its last model call, handed over."""
    newest = list(islice(reversed(turn.members), _LAST))
    last = next((o for o in newest if isinstance(o, ToolUse | Handoff)), None)
    if last is not None and (isinstance(last, Handoff) or last.handoff_to or is_handoff(last.name or "")):
        yield last.handoff_to or handoff_target(last.name or "", last.arguments) or ""
    call = next((o for o in newest if isinstance(o, ModelCall)), None)
    for requested in call.exchange.tool_calls if call is not None else ():
        if requested.name and is_handoff(requested.name):
            yield handoff_target(requested.name, requested.arguments) or ""


def _is_unanswered(turn: Group, group: Group) -> bool:
    """Return whether a group has the message of a turn whose last model call gave no answer."""
    last = next((o for o in islice(reversed(turn.members), _LAST) if isinstance(o, ModelCall)), None)
    if last is None or last.exchange.response or last.span.trace_id == group.members[0].span.trace_id:
        return False
    message = group.user_input
    return message is not None and message == turn.user_input


_LACKS_CALL = "a model received the result of a call that nothing else records"


def turn_of(number: int, group: Group, *, lacks_call: bool = False) -> Turn:
    """Return the turn of a group; in one that `lacks_call`, a result has a call that nothing names."""
    tops = group.tops or group.members
    spans: list[Interval] = [(o.span.start_ns, o.span.end_ns) for o in tops]
    driven = next((values.parse_json(o.notes.driven) for o in group.turns if o.notes.driven), None)
    seen = driven if isinstance(driven, dict) else {}
    calls_unknown = values.text(seen.get("calls_unknown"))
    if calls_unknown and any(map(is_agents_own, group.members)):  # its spans show them
        calls_unknown = None
    return Turn(
        turn=number,
        user_input=group.user_input,
        final_response=_final_response(group),
        start_ns=min(start for start, _ in spans),
        end_ns=max(end for _, end in spans),
        latency_s=length_s(spans) if all(o.span.timed for o in tops) else None,
        trace_ids=tuple(dict.fromkeys(o.span.trace_id for o in group.members)),
        failed=max(tops, key=lambda o: o.span.end_ns).failure is not None,
        driven=isinstance(driven, dict) and not seen.get("reply_withheld"),
        raised=values.text(seen.get("error")),
        calls_unknown=values.text(seen.get("calls_unseen"))
        or calls_unknown
        or _unread(group)
        or (_LACKS_CALL if lacks_call else None),
        calls_outside=tuple(values.texts(seen.get("calls_outside"))),
    )


def _unread(group: Group) -> str | None:
    """Return why parts of the model's messages leave its calls unknown; None if all parts are known."""
    types = [type_ for o in group.exchanging for type_ in o.exchange.unread]
    if not types:
        return _nameless(group)
    names = ", ".join(f"`{type_}`" for type_ in dict.fromkeys(types))
    return f"a model's message has a part that is not known and may be a call: {names}"


def _nameless(group: Group) -> str | None:
    """Return that requests name no tool, if fewer tools' spans are left for them."""
    asking = group.calls or group.exchanging  # runs repeat what their model calls requested
    requested = [call for o in asking for call in o.exchange.tool_calls]
    # What has neither a name nor anything else is the place of another block of the message.
    nameless = [call for call in requested if call.name is None and (call.call_id or call.arguments)]
    if not nameless:
        return None
    named = {call.call_id or call for call in requested if call.name and not is_answer(call.name)}
    is_shown = len(nameless) <= len(group.tools) - len(named)
    return None if is_shown else "a model's message has a call without a name"


def is_agents_own(observation: Observation) -> bool:
    """Return whether an observation is of a span of the agent's own.

    Those are not that stand for a turn, and those in which a run or a test records what the agent reported.
    """
    return not isinstance(observation, TurnSpan | Structure) and observation.notes.driven is None


def _user_input(group: Group) -> str | None:
    texts = (text for text in _texts_of_user(group) if text is not None)
    chosen = next((text for text in texts if not _PLACEHOLDER.fullmatch(text)), None)
    return chosen and _without_template(chosen, group)


def _texts_of_user(group: Group) -> Iterator[str | None]:
    """Yield the candidates for the user's message, the most certain first, last what a guardrail got."""
    yield from (o.exchange.user_input for o in group.turns)
    yield from (o.exchange.user_input for o in with_messages(group.tops) if not _checks(o))
    yield from (
        run.run_input for run in group.runs if "input_in_prompt" not in run.traits and not _checks(run)
    )
    asking = [*group.calls, *group.exchanging]
    yield from (o.exchange.user_input for o in asking if not _checks(o))
    yield from (o.exchange.user_input for o in asking if _checks(o))


def _checks(o: Exchanging) -> bool:
    """Return whether what a guardrail or an evaluator does records an exchange."""
    return "in_check" in o.traits


def _without_template(chosen: str, group: Group) -> str:
    """Return the text that a run was given, where a framework put it into a template of its own.

    It is anywhere in a model's message, and at the end of any other.
    """
    of_model = any(call.exchange.user_input == chosen for call in group.calls)
    for text in (run.run_input for run in group.runs):
        if not text or not text.strip() or chosen == text:
            continue
        if chosen.endswith((f" {text}", f"\n{text}", f":{text}")) or (of_model and _has_words(chosen, text)):
            return text
    return chosen


def _has_words(chosen: str, text: str) -> bool:
    """Return whether a text has another one in it, not as a part of a word."""
    return text in chosen and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", chosen) is not None


def _final_response(group: Group) -> str | None:
    """Return the text of the model call that started last: a call that hands off ends after what follows it.

    Where that text only wraps what the run returned (`Final Answer: …`), return what the run returned.
    """
    for turn in group.turns:
        if turn.exchange.response is not None:
            return turn.exchange.response
    replies = [call.exchange.response for call in reversed(group.calls) if not _checks(call)]
    text = replies[0] if replies else None
    if text is not None and not text.strip():  # an earlier text has the words
        text = next((reply for reply in replies if reply and reply.strip()), text)
    returned: str | None = next(
        (
            reply
            for run in reversed(group.runs)
            if (reply := run.exchange.response or run.run_output)
            and not (_checks(run) or _is_error(run, reply))
        ),
        None,
    )
    if returned and text and returned not in text:
        return returned if _goes_on(group) else text
    return returned or text


def _goes_on(group: Group) -> bool:
    """Return whether a tool ran after the last model call, whose text is then not the last word."""
    ended_ns = next((call.span.end_ns for call in reversed(group.calls) if not _checks(call)), 0)
    return any(tool.span.start_ns >= ended_ns for tool in group.tools)


def _is_error(run: RunSpan | TurnSpan, reply: str) -> bool:
    """Return whether the output of a failed run only tells of its failure."""
    return run.failure is not None and run.failure.error is not None and run.failure.error in reply


def turn_starts(members: Sequence[Work], tops: Sequence[Work], tree: Tree) -> list[int]:
    """Return when the second and later turns of a group begin, in nanoseconds; none for one turn.

    A turn begins with a model call whose new message follows, in its history, the reply that the call before
    it gave, with another run of the same topmost agent, unless it has the same message and no more of them in
    its history, or with a span inside a run that stands for a message of the user. A prompt that a run made
    of its message, or of another agent's answer, is not one.
    """
    exchanging = with_messages(members)
    if any(isinstance(o, TurnSpan) and "of_voice" not in o.traits for o in exchanging):
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
        if _checks(call):
            continue
        if (
            before is not None
            and call.exchange.user_input not in (None, message)
            and before.span.end_ns <= call.span.start_ns
            and all(is_answer(one.name or "") for one in before.exchange.tool_calls)
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
        if not top.is_agent or top.name is None or _checks(top):
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
    first = bisect_left(members, run.span.start_ns, key=_start_ns)
    return members[first : bisect_right(members, run.span.end_ns, first, key=_start_ns)]


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
