"""Metrics of a session's trajectory: its turns, and the agents and tools that started."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import groupby
from operator import eq
from typing import Literal, NamedTuple, get_args

from spangrade.converters.datasets.golden import GoldenQuestion, ReferenceToolInteraction, TrajectoryStep
from spangrade.evaluator.derive.handoffs import is_handoff
from spangrade.evaluator.metrics.call_text import only_requested
from spangrade.evaluator.metrics.causes import (
    Cause,
    Evidence,
    Repair,
    call_spans,
    due_before_turn,
    due_in_turn,
    repairs,
    reply_cause,
    spans_of_repairs,
    turn_cause,
)
from spangrade.evaluator.metrics.matching import (
    arranged,
    common_length,
    is_subsequence,
    normal_text,
    precision,
    recall,
)
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.metrics.pairing import met_calls, pairings_of
from spangrade.evaluator.metrics.references import user_values
from spangrade.evaluator.metrics.tool_names import did_you_mean, is_one, near_names, plain_name
from spangrade.evaluator.session import PlannedCall, Session, Step, ToolInteraction, Turn, error_type
from spangrade.tracer.base.lookalike_letters import is_blank

_UNKNOWN = Inconclusive(
    "which agents took part is not recorded; "
    "name them on the spans (gen_ai.agent.name) or by the setting run.agent_name"
)
_NOT_RECORDED = (
    "the arguments or results of calls that may be expected are not recorded (spangrade lint says how)"
)


_FREE = ' (steps that it does not name are free with "trajectory": "major_steps")'


By = Literal["exact", "in_order", "any_order", "precision", "recall"]


@metric(needs="reference_trajectory", threshold=1.0, parameters={"by": get_args(By)})
def trajectory(session: Session, question: GoldenQuestion, *, by: By) -> Outcome:
    """The steps beside those of the reference.

    By `exact`: 1 if they are exactly the reference's, in order, else 0. By `in_order`: 1 if the reference's
    steps happened in its order, with any others in between. By `any_order`: 1 if all of them happened.
    By `precision`: the share of the steps that match one of the reference, M / |A|; by `recall`: the share of
    the reference's steps that happened, M / |E|. M is the number of steps that both multisets have.
    Both empty: 1. Precision is 0 if one is empty, recall 0 if only A is.
    Inconclusive if the agents are not recorded, or if a step that the reference names was only requested.

    Source: the trajectory metrics of Vertex AI's Gen AI evaluation service.
    """
    return _score(session, question, *_VALUES[by])


@metric(needs="reference_trajectory", threshold=1.0)
def trajectory_accuracy(session: Session, question: GoldenQuestion) -> Outcome:
    """F1 score of the longest common subsequence of the major steps and the reference's: 2 L / (|A| + |E|).

    L is the length of that subsequence; 1 if both are empty, 0 if one is. A tool that the reference does not
    name is a step too, unless its call meets one of `reference_tool_interactions` or failed before one of its
    tool did. Agents of one name that are adjacent after this are one step. If the question's `trajectory` is
    "major_steps", every step that the reference does not name is left out.
    Inconclusive if the agents are not recorded, if a step that the reference names was only requested, or if
    the value depends on arguments or results that are not recorded.

    Source: ROUGE-L (Lin 2004), over steps instead of words.
    """
    question = _as_recorded(session, question)
    if (unknown := _unknown_steps(session, question)) is not None:
        return unknown
    reference, steps = major_reference(session, question), major_steps(session, question)
    outcome = _score_of(session, question, reference, steps, _f1, _EXACT)
    if isinstance(outcome, Score) and outcome.value < 1:
        best = _score_of(
            session, question, reference, major_steps(session, question, at_best=True), _f1, _EXACT
        )
        if isinstance(best, Score) and best.value > outcome.value:
            return Inconclusive(f"{_NOT_RECORDED}; {outcome.reason}", best.value)
        if reference and not {step.name for step in steps} <= _named(question):
            return outcome._replace(reason=outcome.reason + _FREE)
    return outcome


@metric(threshold=1.0, parameters={"tool": ()})
def trajectory_single_tool_use(session: Session, *, tool: str) -> Outcome:
    """1 if the named tool was called, else 0.

    Inconclusive if the tool was only requested.

    Source: the trajectory metrics of Vertex AI's Gen AI evaluation service.
    """
    calls = [call for call in session.tool_interactions if is_one(call.tool_name, (tool,))]
    called = bool(calls)
    spans: tuple[Evidence, ...] = tuple(call.span_id for call in calls if call.span_id is not None)
    if not called and (unknown := session.calls_unknown_of([tool])):
        return Inconclusive(unknown)
    if not called and any(is_one(call.tool_name, (tool,)) for call in session.requested_calls):
        return Inconclusive(f"whether {tool} was executed is not recorded, only that it was requested")
    if near := near_names(session, (tool,)):
        return Inconclusive(did_you_mean(near))
    if not called:
        spans = (due_in_turn(session, session.turns[-1].turn if session.turns else 1, tool),)
    return Score(float(called), None, f"{tool} was {'' if called else 'not '}called", spans)


@metric(needs="agents_evaluated", threshold=1.0)
def agent_routing(session: Session, question: GoldenQuestion) -> Outcome:
    """The share of `agents_evaluated` that took part.

    Inconclusive if the agents are not recorded.

    Source: own definition.
    """
    if session.agents is None:
        return _UNKNOWN
    expected = dict.fromkeys(question.agents_evaluated)
    absent = [name for name in expected if name not in session.agents]
    if not absent:
        return Score(1.0, None, "all agents took part")
    took_part = ", ".join(session.agents) or "none"
    share = (len(expected) - len(absent)) / len(expected)
    reason = f"did not take part: {', '.join(absent)}; took part: {took_part}"
    started = {step.name for step in session.trajectory}
    placed = [name for name in expected if name in absent or name in started]
    return Score(share, None, reason, _absent_agents(session, placed))


def _absent_agents(session: Session, expected: Sequence[str]) -> tuple[Cause, ...]:
    """Return the places where expected agents are due: between the steps of those that took part."""
    steps = session.trajectory
    names = [step.name for step in steps]
    first_steps = [step for place, step in enumerate(steps) if step.name not in names[:place]]

    def unlike(_e: int, a: int) -> int | None:
        step = first_steps[a]
        return 19 if step.kind == "agent" and step.name not in expected else None

    found = repairs(
        len(expected),
        len(first_steps),
        lambda e, a: first_steps[a].name == expected[e],
        unlike,
        in_order=False,
        further=False,
    )

    return _causes_of(session, found, first_steps, lambda one: expected[one.expected or 0])


def _causes_of(
    session: Session, found: Iterable[Repair], compared: Sequence[Step], path: Callable[[Repair], str]
) -> tuple[Cause, ...]:
    """Return repairs of steps as causes: an agent is due after all that the one before it did."""
    steps = session.trajectory
    spans = call_spans(session, compared)
    if any(step.kind == "tool" for step in compared):
        return spans_of_repairs(found, spans, path)
    places = {step.position: place for place, step in enumerate(steps)}
    causes: list[Cause] = []
    for one in found:
        (cause,) = spans_of_repairs([one], spans, path)
        if one.actual is None:
            end = len(steps) if one.before is None else places[compared[one.before].position]
            done = [step.span_id for step in steps[:end] if step.span_id is not None]
            cause = cause._replace(after=done[-1] if one.after is not None and done else cause.after)
        causes.append(cause)
    return tuple(causes)


@metric(needs="id", threshold=1.0)
def turns_answered(session: Session, question: GoldenQuestion) -> Outcome:
    """1 if there are as many turns as user inputs and each has a reply, else 0.

    The number of turns is free for a scenario, and for a question without user inputs. A turn has no reply if
    it ended in an error without an answer, or if an empty reply is recorded, unless no user began it, one of
    its calls waits for a person's approval, was rejected, or is a requested one that counts as made, or it
    ends with a hand-off. A reply that is not recorded is taken for one. Inconclusive if
    the turn of an empty reply has a call that was only requested: the conversation may go on elsewhere; and
    if there are more turns than inputs, but not with a user's message: an event may have begun the others.

    A conversation that ends at the user's message, with nothing recorded after it, has no reply there if
    other turns have one. Inconclusive if none has, or if a call waits for approval. A message by which the
    user hangs up (it has the scenario's `stop_word`) needs no reply.

    Source: own definition.
    """
    turns, expected = len(session.turns), len(question.user_inputs)
    if (question.scenario is not None or not question.user_inputs) and turns:
        expected = turns
    # What a framework recorded as the reply of a turn that raised, or was too late, did not reach its driver.
    unanswered = [
        turn for turn in session.turns if turn.failed and (turn.raised or is_blank(turn.final_response))
    ]
    if unanswered:
        numbers = ", ".join(str(turn.turn) for turn in unanswered)
        traces = {trace_id for turn in unanswered for trace_id in turn.trace_ids}
        kinds = (error_type(error.message) for error in session.errors if error.trace_id in traces)
        raised = [turn.raised for turn in unanswered if turn.raised]
        what = ", ".join(dict.fromkeys(raised or filter(None, kinds)))
        reason = f"turn {numbers} ended in an error without an answer{': ' if what else ''}{what}"
        return Score(0.0, None, reason, tuple(_failed_turn(session, turn) for turn in unanswered))
    end = open_end(session)
    if end is not None and not _hangs_up(end, question):
        doubt, reason = doubt_of_end(session), f"turn {end.turn} has no reply"
        if doubt is None:
            return Score(0.0, None, reason, (_reply(session, end),))
        if turns == expected:
            return Inconclusive(f"{reason}, and {doubt}", 1.0)
    silent = _silent(session)
    if silent:
        numbers = ", ".join(str(turn.turn) for turn in silent)
        is_none = all(turn.final_response is None for turn in silent)
        reason = f"turn {numbers} has {'no' if is_none else 'an empty'} reply"
        requested = {call.turn for call in session.requested_calls}
        if turns == expected and all(turn.turn in requested for turn in silent):
            return Inconclusive(f"{reason}, and a call whose result is not recorded", 1.0)
        return Score(0.0, None, reason, tuple(_reply(session, turn) for turn in silent))
    if turns == expected:
        return Score(1.0, None, "as expected")
    no_input = [turn for turn in session.turns if not (turn.user_input or "").strip()]
    if 0 < turns - len(no_input) <= expected < turns:
        numbers = ", ".join(str(turn.turn) for turn in no_input)
        return Inconclusive(f"whether a user began turn {numbers} is not recorded", 1.0)
    went = "stopped after" if turns < expected else "went on for"
    return Score(0.0, None, f"{went} {turns} turns of {expected}", _turns_due(session, question))


def _reply(session: Session, turn: Turn) -> Cause:
    return reply_cause(session, turn.turn, f"turns[{turn.turn}].reply")


def _failed_turn(session: Session, turn: Turn) -> Cause:
    """Return the span of the error that ended a turn: the last one in its traces."""
    spans = [
        one.span_id for one in session.errors if one.trace_id in turn.trace_ids and one.span_id is not None
    ]
    return Cause(spans[-1], f"turns[{turn.turn}].reply") if spans else _reply(session, turn)


def _turns_due(session: Session, question: GoldenQuestion) -> tuple[Cause, ...]:
    """Return the turns that are missing or too many, by the user's messages in them."""
    values = user_values(session, question)
    turns = session.turns
    inputs = [_filled(text, values) for text in question.user_inputs]
    said = [normal_text(turn.user_input or "") for turn in turns]
    found = repairs(
        len(inputs),
        len(said),
        lambda e, a: inputs[e] == said[a],
        lambda e, a: 36,  # noqa: ARG005 (any other message)
        in_order=True,
        further=True,
    )
    causes = []
    for one in found:
        if one.expected is not None and one.actual is None:
            due = len(turns) + 1 if one.before is None else turns[one.before].turn
            causes.append(due_before_turn(session, due, f"turns[{one.expected + 1}]"))
        elif one.expected is None and one.actual is not None:
            number = turns[one.actual].turn
            causes.append(turn_cause(session, number, f"turns[{number}]"))
    return tuple(causes)


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Return a user input with the values that it has names for."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return normal_text(text)


def open_end(session: Session) -> Turn | None:
    """Return the last turn if nothing follows the user's message in it: no reply, no model call, no call."""
    last = session.turns[-1] if session.turns else None
    if last is None or last.final_response is not None or not (last.user_input or "").strip():
        return None
    work = (session.llm_calls, session.tool_interactions, session.requested_calls)
    return None if any(one.turn == last.turn for calls in work for one in calls) else last


def doubt_of_end(session: Session) -> str | None:
    """Return why a reply may follow the `open_end` of a session, None if none does."""
    if all(turn.final_response is None and not turn.driven for turn in session.turns):
        return "no turn has: record the model's output"
    if waiting := next((call for call in session.tool_interactions if call.approval == "asked"), None):
        return f"{waiting.tool_name} waits for approval"
    return None


def _hangs_up(turn: Turn, question: GoldenQuestion) -> bool:
    word = question.scenario.stop_word if question.scenario is not None else None
    return word is not None and word in (turn.user_input or "")


def _silent(session: Session) -> list[Turn]:
    """Return the turns that have an empty reply, or are known to have none, and nothing in its place."""
    turns = [
        turn
        for turn in session.turns
        if (turn.final_response is not None or turn.driven)
        and is_blank(turn.final_response)
        and (turn.user_input or "").strip()
    ]
    if not turns:
        return turns
    last_ns: dict[int | None, int] = {}
    for model_call in session.llm_calls:
        last_ns[model_call.turn] = max(model_call.start_ns, last_ns.get(model_call.turn, 0))
    answered = {
        call.turn
        for call in session.tool_interactions
        if call.approval in ("asked", "rejected")
        or isinstance(call, PlannedCall)
        or (call.handoff and call.start_ns >= last_ns.get(call.turn, 0))
    }
    return [turn for turn in turns if turn.turn not in answered]


METRICS = (
    turns_answered,
    trajectory,
    trajectory_accuracy,
    trajectory_single_tool_use,
    agent_routing,
)


class _Rule(NamedTuple):
    """The errors that lower a value: another order, further steps, missing ones."""

    in_order: bool = False
    further: bool = False
    missing: bool = True


_EXACT, _IN_ORDER = _Rule(in_order=True, further=True), _Rule(in_order=True)
_PRECISION, _RECALL = _Rule(further=True, missing=False), _Rule()
_Value = Callable[[Sequence[str], Sequence[str]], float]  # of the steps and those of the reference
_VALUES: dict[By, tuple[_Value, _Rule]] = {
    "exact": (lambda actual, expected: float(actual == expected), _EXACT),
    "in_order": (lambda actual, expected: float(is_subsequence(expected, actual, eq)), _IN_ORDER),
    "any_order": (lambda actual, expected: float(_matched(actual, expected) == len(expected)), _RECALL),
    "precision": (
        lambda actual, expected: precision(_matched(actual, expected), len(actual), len(expected)),
        _PRECISION,
    ),
    "recall": (lambda actual, expected: recall(_matched(actual, expected), len(expected)), _RECALL),
}


def _score(
    session: Session,
    question: GoldenQuestion,
    value: _Value,
    rule: _Rule,
) -> Outcome:
    question = _as_recorded(session, question)
    if (unknown := _unknown_steps(session, question)) is not None:
        return unknown
    reference = question.reference_data.reference_trajectory or ()
    return _score_of(session, question, reference, compared_steps(session, question), value, rule)


def _unknown_steps(session: Session, question: GoldenQuestion) -> Inconclusive | None:
    """Return that the steps of the kinds that the reference names are not recorded; None if they are."""
    if session.agents is None:
        return _UNKNOWN
    named, agents = _named(question), _agents(session, question)
    unknown = session.calls_unknown_of()
    if named <= agents:  # most references name agents alone
        return Inconclusive(unknown) if unknown and not named else None
    if unknown:
        return Inconclusive(unknown)
    near = {name: other for name, other in near_names(session, named).items() if name not in agents}
    return Inconclusive(did_you_mean(near)) if near else None


def _as_recorded(session: Session, question: GoldenQuestion) -> GoldenQuestion:
    """Return a question whose trajectory has the names of steps as the session has them.

    They are compared without what look-alike letters and spaces around a name hide.
    """
    names = {step.name for step in session.trajectory}
    if _named(question) <= names:
        return question
    recorded = {plain_name(name): name for name in names}

    def own(step: TrajectoryStep) -> TrajectoryStep:
        if not isinstance(step, str):
            return tuple(one if one in names else recorded.get(plain_name(one), one) for one in step)
        return step if step in names else recorded.get(plain_name(step), step)

    steps = tuple(map(own, question.reference_data.reference_trajectory or ()))
    if steps == question.reference_data.reference_trajectory:
        return question
    data = question.reference_data.model_copy(update={"reference_trajectory": steps})
    return question.model_copy(update={"reference_data": data})


def _only_requested(session: Session, question: GoldenQuestion) -> str:
    """Return why further steps may have been made: calls that were only requested; empty if none may."""
    named, agents = _named(question), _agents(session, question)
    if (not session.requested_calls) or (named and named <= agents):
        return ""
    major = question.reference("trajectory") == "major_steps"
    calls = [call for call in session.requested_calls if not is_handoff(call.tool_name)]
    return only_requested([call for call in calls if not major or call.tool_name in named])


def _score_of(
    session: Session,
    question: GoldenQuestion,
    reference: Sequence[TrajectoryStep],
    steps: Sequence[Step],
    value: _Value,
    rule: _Rule,
) -> Score | Inconclusive:
    actual = tuple(step.name for step in steps)
    expected = tuple(arranged(reference, actual))
    score = value(actual, expected)
    if score == 1:
        further = _only_requested(session, question) if rule.further else ""
        return Inconclusive(further, 1.0) if further else Score(1.0, None, "as expected")
    missing = Counter(expected)
    unexpected = []
    for step in steps:
        if missing[step.name] > 0:
            missing[step.name] -= 1
        else:
            unexpected.append(step)
    parts = []
    if names := list(missing.elements()):
        parts.append(f"missing: {', '.join(names)}")
    if unexpected:
        parts.append(f"not expected: {', '.join(step.name for step in unexpected)}")
    if not names and not is_subsequence(expected, actual, eq):
        parts.append(f"in another order: {', '.join(actual)}")
    requested = {call.tool_name for call in session.requested_calls}.intersection(names)
    if requested and not missing - Counter(name for name in names if name in requested):
        what = ", ".join(sorted(requested))
        return Inconclusive(f"whether {what} was executed is not recorded, only that it was requested")
    return Score(score, None, "; ".join(parts), _causes(session, question, expected, steps, rule))


def _causes(
    session: Session, question: GoldenQuestion, expected: Sequence[str], steps: Sequence[Step], rule: _Rule
) -> tuple[Cause, ...]:
    """Return the steps that have to be others, and the places where steps are due, so that the value is 1."""
    found = repairs(
        len(expected),
        len(steps),
        lambda e, a: expected[e] == steps[a].name,
        lambda e, a: 36 if rule.further else None,  # noqa: ARG005 (any other step)
        in_order=rule.in_order,
        further=rule.further,
        fits=_by_arguments(session, question, expected, steps),
    )
    if not rule.missing:  # one step that is met is all that is due
        found = [one for one in found if one.actual is not None] or found[:1]

    def path(one: Repair) -> str:
        return steps[one.actual].name if one.actual is not None else expected[one.expected or 0]

    return _causes_of(session, found, steps, path)


def _by_arguments(
    session: Session, question: GoldenQuestion, expected: Sequence[str], steps: Sequence[Step]
) -> Callable[[int, int], bool]:
    """Return whether the call of a step may be the one that is expected there, by the reference's calls.

    They are told apart if the reference has as many calls of a tool as its trajectory names it.
    """
    wanted: dict[str, list[ReferenceToolInteraction]] = defaultdict(list)
    compared = pairings_of(session, question)
    for one in compared.best_met:
        wanted[one.tool_name].append(one)
    names = Counter(expected)
    numbered = [
        wanted[name][list(expected[:place]).count(name)] if len(wanted[name]) == names[name] else None
        for place, name in enumerate(expected)
    ]
    calls = {step.position: call for step, call in calls_of_steps(session)}
    made = [calls.get(step.position) for step in steps]

    def fits(e: int, a: int) -> bool:
        want, call = numbered[e], made[a]
        return want is None or call is None or compared.match(want, call) is not False

    return fits


def compared_steps(session: Session, question: GoldenQuestion) -> list[Step]:
    """Return the steps of the kinds that the reference names: agents, tools or both; hand-offs only if named.

    A name that is nobody's agent is a tool. A name that is an agent's too (an agent used as a tool) does not
    count as a tool of the reference. An empty reference expects that no tool is called.
    """
    named, agents = _named(question), _agents(session, question)
    tools = named - agents
    if named and not tools:
        steps = (step for step in session.trajectory if step.kind == "agent")
        return _without_repeats(steps, agents)
    unnamed = {call.tool_name for call in session.tool_interactions if call.handoff} - named
    steps = (step for step in session.trajectory if step.kind == "agent" or step.name not in unnamed)
    if tools == named:
        return [step for step in steps if step.kind == "tool" and step.name not in agents]
    return list(steps)


def major_steps(session: Session, question: GoldenQuestion, *, at_best: bool = False) -> list[Step]:
    """Return the steps that `trajectory_accuracy` compares.

    With `at_best`, a step is also left out if only what is not recorded decides whether its call meets one.
    """
    steps = compared_steps(session, question)
    named, agents = _named(question), _agents(session, question)
    if named and question.reference("trajectory") is not None:
        return _without_repeats((step for step in steps if step.name in named), agents)
    if named and named <= agents:
        return steps
    met = met_calls(session, question, at_best=at_best)
    left_out = {
        step.position
        for step, call in calls_of_steps(session)
        if call is not None and call.position in met and step.name not in named
    }
    kept = (step for step in steps if step.kind == "agent" or step.position not in left_out)
    return _without_repeats(kept, agents)


def calls_of_steps(session: Session) -> list[tuple[Step, ToolInteraction | None]]:
    """Return the steps of the trajectory, those of tools with their calls."""
    calls: dict[str, deque[ToolInteraction]] = defaultdict(deque)
    for call in session.tool_interactions:
        calls[call.tool_name].append(call)
    return [
        (step, calls[step.name].popleft() if step.kind == "tool" and calls[step.name] else None)
        for step in session.trajectory
    ]


def major_reference(session: Session, question: GoldenQuestion) -> list[TrajectoryStep]:
    """Return the reference that `trajectory_accuracy` compares: an agent named twice in a row is one step."""
    steps = groupby(question.reference_data.reference_trajectory or ())
    agents = _agents(session, question)
    return [one for step, same in steps for one in ([step] if step in agents else same)]


def _without_repeats(steps: Iterable[Step], agents: Set[str]) -> list[Step]:
    """Return steps, with adjacent steps of the same agent as one."""
    kept: list[Step] = []
    for step in steps:
        is_agent = step.kind == "agent" or step.name in agents
        if not (is_agent and kept and kept[-1].name == step.name):
            kept.append(step)
    return kept


def _named(question: GoldenQuestion) -> set[str]:
    steps = question.reference_data.reference_trajectory or ()
    return {name for step in steps for name in ((step,) if isinstance(step, str) else step)}


def _agents(session: Session, question: GoldenQuestion) -> set[str]:
    return {*(session.agents or ()), *question.agents_evaluated}


def _matched(actual: Sequence[str], expected: Sequence[str]) -> int:
    return (Counter(actual) & Counter(expected)).total()


def _f1(actual: Sequence[str], expected: Sequence[str]) -> float:
    if actual == expected:
        return 1.0
    total = len(actual) + len(expected)
    return 2 * common_length(actual, expected) / total if total else 1.0
