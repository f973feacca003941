"""Proposals that catch survivors: references that the sessions agree on, each tried first."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, eq
from statistics import fmean
from typing import Any, NamedTuple

from spangrade.converters.datasets.forms import word_of
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.converters.datasets.golden_edits import Edit, edited
from spangrade.evaluator.apps.audit.audit import Audited, Fate, Tried, fates, gates_of, graded
from spangrade.evaluator.apps.audit.options import LEAST_SESSIONS
from spangrade.evaluator.apps.audit.right import complete
from spangrade.evaluator.apps.audit.turns import REPLY
from spangrade.evaluator.apps.audit.usage import COST, LATENCY
from spangrade.evaluator.grading.policy import MetricPlan
from spangrade.evaluator.metrics import Metric, Outcome, Score, parse_metric
from spangrade.evaluator.metrics.matching import ANY_TEXT, is_subsequence
from spangrade.evaluator.metrics.pairing import best_met, pair_calls
from spangrade.evaluator.metrics.references import user_values
from spangrade.evaluator.review.session_to_golden import looks_generated
from spangrade.evaluator.session import Session, ToolInteraction
from spangrade.evaluator.statistics.intervals import student_quantile
from spangrade.tracer.base.installation import is_installed, to_install

_EXAMPLES = 3  # survivors of one kind and target for which an edit is looked for
_LONGEST_VALUE = 200  # characters of a state variable that is expected: a longer one is content
_DATA, _CALLS, _TRAJECTORY = "reference_data", "reference_tool_interactions", "reference_trajectory"
_OTHER_CALLS, _NO_FURTHER = "reference_tool_alternatives", "no_further_calls"
_RESPONSE = "reference_response"
# A good session may differ from a few others in these.
_NEED_SESSIONS = (_CALLS, _TRAJECTORY, _RESPONSE)
# Gates that are stricter than the default ones: the first that helps is proposed.
_GATES = ("trajectory:exact>=1", "tools:exact>=1", "tools:exact:exact>=1")

_Grade = Callable[[Audited], Sequence[tuple[Metric, Outcome]]]  # by one question
_FAILING = 0.001  # share of good sessions that may exceed a limit; a question may have two of them
_MULTIPLE = 4.0  # of the usual: what a limit is to catch, in more than 90% of such sessions
_CAUGHT = 0.95  # as estimated: a spread that is too small by chance lets a limit be written


class Proposal(NamedTuple):
    """An edit of golden questions that expect the same, and how many survivors it is the first to catch.

    `sessions` is how many of them it is tried on.
    """

    question_ids: tuple[str, ...]
    edit: Edit
    catches: int
    sessions: int


class GateProposal(NamedTuple):
    """A gate that all audited sessions meet, and how many of the remaining survivors it catches."""

    metric: str
    catches: int


class Withheld(NamedTuple):
    """A proposal that is withheld, and why the sessions are not enough for it."""

    question_ids: tuple[str, ...]
    reference: str
    reason: str


class Proposed(NamedTuple):
    """The proposals, the fates of the mutants with the edited questions, and the withheld proposals.

    `unsure` are further edits, of calls, trajectories and replies, that too few sessions show.
    """

    edits: tuple[Proposal, ...]
    gates: tuple[GateProposal, ...]
    after: tuple[Tried, ...]
    withheld: tuple[Withheld, ...] = ()
    unsure: tuple[Proposal, ...] = ()


def proposals(
    mutants: Sequence[Tried],
    sessions: Iterable[Audited],
    plan: MetricPlan,
    least: int = LEAST_SESSIONS,
) -> Proposed:
    """Return proposals that catch survivors, made of a session and tried on all sessions of its question.

    Every session meets what is proposed: a gate that it meets stays met, and none is missed or becomes
    inconclusive by it. Calls, trajectories and replies need at least `least` sessions of the question.
    """
    by_question: dict[tuple[str, ...], list[Tried]] = {}
    for one in mutants:
        by_question.setdefault(one.audited.question_ids, []).append(one)
    audited: dict[tuple[str, ...], list[Audited]] = {}
    for each in sessions:
        audited.setdefault(each.question_ids, []).append(each)
    spreads = {
        target: pooled_spread(_values(target, found) for found in audited.values()) for target in _LIMITS
    }
    edits: list[Proposal] = []
    after: list[Tried] = []
    withheld: list[Withheld] = []
    unsure: list[Proposal] = []
    for ids, found in by_question.items():
        known = audited[ids]
        made, again, more = _edits(found, known, plan, spreads, least)
        edits += (Proposal(ids, edit, catches, len(known)) for edit, catches in made)
        unsure += (Proposal(ids, edit, catches, len(known)) for edit, catches in more)
        fared = [again.get(id(one), one) for one in found]
        withheld += _withheld(fared, known, spreads)
        after += fared
    every = [each for found in audited.values() for each in found]
    gates = tuple(_gates(after, every))
    return Proposed(tuple(edits), gates, tuple(after), tuple(withheld), tuple(unsure))


def _edits(
    mutants: Sequence[Tried],
    sessions: Sequence[Audited],
    plan: MetricPlan,
    spreads: Mapping[str, Spread],
    least: int,
) -> tuple[list[tuple[Edit, int]], dict[int, Tried], list[tuple[Edit, int]]]:
    """Return edits of a question, each with the number of survivors that it is the first to catch.

    With them, those survivors (by `id`) as they fare with all edits; then the edits that would follow if as
    few sessions as there are were enough.
    """
    question = mutants[0].audited.question
    left = [one for one in mutants if one.fate in (Fate.SURVIVED, Fate.UNDECIDED)]
    without = () if len(sessions) >= least else _NEED_SESSIONS
    accepted, again, changed = _accepted(left, question, sessions, plan, spreads, without)
    if accepted:  # what did no harm may be expected now
        harmless = [one for one in mutants if one.fate is Fate.HARMLESS]
        fared = _fares(harmless, changed, plan, _graded_once(changed, plan))
        again |= {id(old): new for old, new in zip(harmless, fared, strict=True)}
    if not without:
        return accepted, again, []
    rest = [
        one for one in left if id(one) not in again or again[id(one)].fate in (Fate.SURVIVED, Fate.UNDECIDED)
    ]
    return accepted, again, _accepted(rest, changed, sessions, plan, spreads, ())[0]


def _accepted(
    left: list[Tried],
    question: GoldenQuestion,
    sessions: Sequence[Audited],
    plan: MetricPlan,
    spreads: Mapping[str, Spread],
    without: Collection[str],
) -> tuple[list[tuple[Edit, int]], dict[int, Tried], GoldenQuestion]:
    """Return the edits of a question that all sessions meet, but for those of the references `without`.

    With them, the survivors as they fare, and the edited question.
    """
    raw = json.loads(question.model_dump_json(exclude_unset=True))
    accepted: list[tuple[Edit, int]] = []
    again: dict[int, Tried] = {}
    refused: set[str] = set()
    for one in _examples(left):
        if id(one) in again and again[id(one)].fate in (Fate.CAUGHT, Fate.RIGHT):
            continue
        for edit in _candidates(one, question, sessions, spreads):
            key = f"{edit.path} {edit.insert} {json.dumps(edit.value, sort_keys=True)}"
            if key in refused or _reference(edit) in without:
                continue
            changed = type(question).model_validate(edited(raw, edit))
            grade = _graded_once(changed, plan)
            if next(_fares([one], changed, plan, grade)).fate is not Fate.CAUGHT:
                continue
            if not all(_meets(each, grade(each), _reference(edit)) for each in sessions):
                refused.add(key)
                continue
            question, raw = changed, edited(raw, edit)
            fared = _fares(left, question, plan, grade)
            again |= {id(old): new for old, new in zip(left, fared, strict=True)}
            accepted.append((edit, sum(again[id(old)].fate is Fate.CAUGHT for old in left)))
            left = [old for old in left if again[id(old)].fate in (Fate.SURVIVED, Fate.UNDECIDED)]
            break
    return accepted, again, question


def _reference(edit: Edit) -> str:
    """Return the reference that an edit changes, as gates name it."""
    name = str(edit.path[1] if edit.path[0] == _DATA else edit.path[0])
    return _CALLS if name == _OTHER_CALLS else name


def _examples(mutants: Iterable[Tried]) -> Iterator[Tried]:
    """Yield the first survivors of each kind and target, then undecided mutants likewise."""
    groups: dict[tuple[bool, str, str], list[Tried]] = {}
    for one in mutants:
        key = (one.fate is Fate.UNDECIDED, one.kind, one.mutant.target)
        groups.setdefault(key, []).append(one)
    for key in sorted(groups):
        yield from groups[key][:_EXAMPLES]


def _graded_once(question: GoldenQuestion, plan: MetricPlan) -> _Grade:
    """Return a function that grades sessions as answers to an edited question, each of them once."""
    known: dict[int, Sequence[tuple[Metric, Outcome]]] = {}

    def grade(audited: Audited) -> Sequence[tuple[Metric, Outcome]]:
        place = id(audited.session)
        if place not in known:
            known[place] = graded(audited.session, question, plan)
        return known[place]

    return grade


def _fares(
    mutants: Sequence[Tried], question: GoldenQuestion, plan: MetricPlan, grade: _Grade
) -> Iterator[Tried]:
    """Yield mutants as they fare with an edited question, whose gates their sessions may meet."""
    for _, members in groupby(mutants, key=lambda one: id(one.audited)):
        found = list(members)
        audited = found[0].audited
        asked = audited._replace(question=question, gates=gates_of(grade(audited)))
        for one, fate in zip(found, fates(asked, [one.mutant for one in found], plan), strict=True):
            yield one._replace(audited=asked, fate=fate[0], gates=fate[1])


def _meets(audited: Audited, results: Sequence[tuple[Metric, Outcome]], reference: str) -> bool:
    """Return whether a session meets an edited reference, and still meets all gates that it met."""
    not_met = gates_of(results).not_met
    readers = {metric.name for metric, _ in results if metric.needs == reference}
    return not_met <= audited.gates.not_met and not_met.isdisjoint(readers)


def _candidates(
    one: Tried, question: GoldenQuestion, sessions: Sequence[Audited], spreads: Mapping[str, Spread]
) -> Iterator[Edit]:
    """Yield edits that may catch a mutant, the most specific first."""
    session, mutant = one.audited.session, one.mutant
    pairs = [pair for each in sessions for pair in overlapping(each.session)]
    at_once = {call.tool_name for pair in pairs for call in pair}
    if mutant.target == REPLY:
        yield from _reply(session, question)
    elif mutant.target in _LIMITS:
        yield from _limit(mutant.target, sessions, question, spreads)
    elif mutant.call is None and mutant.path:
        yield from _state(session, str(mutant.path[0]), question)
    else:
        if mutant.call is not None:
            yield from _call(session, mutant.call, mutant.path, question, at_once)
        if mutant.target in (session.agents or ()):
            yield from _agents(session, question)
        if all(call.agent == other.agent for call, other in pairs):
            yield from _trajectory(session, question, tools=not pairs)
        # Another good session may make one call more: a few of them are no reason to forbid that.
        is_known = len(sessions) >= LEAST_SESSIONS and question.reference(_CALLS) is not None
        if is_known and question.reference(_NO_FURTHER) is None:
            yield Edit((_DATA, _NO_FURTHER), True)


def _reply(session: Session, question: GoldenQuestion) -> Iterator[Edit]:
    reply = session.turns[-1].final_response
    if question.reference(_RESPONSE) is None and reply:
        yield Edit((_DATA, _RESPONSE), reply)


# By the target of a mutant: the reference, its value in a session, and how much more is always within it.
_LIMITS: Mapping[str, tuple[str, Callable[[Session], float | None], float]] = {
    COST: ("max_cost_usd", attrgetter("cost_usd"), 1.5),
    LATENCY: ("max_latency_s", attrgetter("latency.total_s"), 2.0),
}


def _values(target: str, sessions: Iterable[Audited]) -> list[float]:
    """Return the cost or the time of sessions, as far as it is known."""
    value_of = _LIMITS[target][1]
    return [value for each in sessions if (value := value_of(each.session))]


def _limit(
    target: str, sessions: Sequence[Audited], question: GoldenQuestion, spreads: Mapping[str, Spread]
) -> Iterator[Edit]:
    key, _, slack = _LIMITS[target]
    limit = limit_of(_values(target, sessions), spreads[target], slack)
    if question.reference(key) is None and not isinstance(limit, str):
        yield Edit((_DATA, key), limit)


def _withheld(
    mutants: Iterable[Tried], sessions: Sequence[Audited], spreads: Mapping[str, Spread]
) -> Iterator[Withheld]:
    """Yield the proposals for a question that are withheld for lack of evidence."""
    left = [one for one in mutants if one.fate is Fate.SURVIVED]
    for target, (key, _, slack) in _LIMITS.items():
        found = [one.audited for one in left if one.mutant.target == target]
        limit = limit_of(_values(target, sessions), spreads[target], slack) if found else None
        if isinstance(limit, str) and found[0].question.reference(key) is None:
            yield Withheld(found[0].question_ids, key, limit)
    silent = sum(not any(call.ran for call in each.session.tool_interactions) for each in sessions)
    if 0 < silent < len(sessions) and any(one.mutant.call is not None for one in left):
        yield Withheld(sessions[0].question_ids, _CALLS, f"sessions disagree: {silent} call nothing")
    at_once = sorted(
        {call.tool_name for each in sessions for pair in overlapping(each.session) for call in pair}
    )
    if at_once and any(
        one.mutant.target in (*at_once, "trajectory") or one.mutant.call is not None for one in left
    ):
        yield Withheld(
            sessions[0].question_ids, "order of calls", f"{', '.join(at_once)} ran at the same time as others"
        )


def overlapping(session: Session) -> Iterator[tuple[ToolInteraction, ToolInteraction]]:
    """Yield calls that ran at the same time, two by two: their order is chance, or is not known.

    Every call that ran beside another is in a pair, and if one ran beside another agent's, there is a pair of
    two agents. Other pairs are left out: if all calls ran at once, there would be the square of their number.
    """
    calls = sorted(
        (call for call in session.tool_interactions if not call.handoff),
        key=lambda call: (call.start_ns, call.end_ns),
    )
    earlier: list[ToolInteraction] = []  # the one before, and of two agents those that end last
    for call in calls:
        for one in earlier:
            if one.start_ns < call.end_ns and call.start_ns < one.end_ns:
                yield one, call
        last, *others = sorted((call, *earlier[1:]), key=lambda one: one.end_ns, reverse=True)
        earlier = [call, last, *(one for one in others if one.agent != last.agent)][:3]


def _state(session: Session, name: str, question: GoldenQuestion) -> Iterator[Edit]:
    value = (session.state_variables or {}).get(name)
    expected = question.reference("reference_state_variables") or {}
    if name not in expected and _can_be_expected(value):
        yield Edit((_DATA, "reference_state_variables", name), value)


def _can_be_expected(value: Any) -> bool:
    """Return whether another run may have the same value: it is short, and does not look generated."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except RecursionError:
        return False
    return len(text) <= _LONGEST_VALUE and not any(map(looks_generated, _scalars(value)))


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _scalars(item)
    else:
        yield value


def _call(
    session: Session,
    index: int,
    path: tuple[str | int, ...],
    question: GoldenQuestion,
    at_once: Collection[str],
) -> Iterator[Edit]:
    """Yield edits of the expected call that a call stands for, or one that adds it.

    A call of a tool that ran beside others, `at_once`, is `unordered`. Where the reference has such a call
    that is not `unordered`, no call is added: its place would be an order.
    """
    met = best_met(session, question)
    call = session.tool_interactions[index]
    number = question.accepted_calls.index(met)
    base = (_DATA, _CALLS) if not number else (_DATA, _OTHER_CALLS, number - 1)
    places = list(pair_calls(met, session.tool_interactions, user_values(session, question)))
    if index in places:
        wanted = places.index(index)
        if path and isinstance(call.input_arguments, dict):
            at = (*base, wanted, "input_arguments")
            yield from _argument(met[wanted].input_arguments, call.input_arguments, path, at)
        return
    new: dict[str, Any] = {"tool_name": call.tool_name}
    if isinstance(call.input_arguments, dict) and call.arguments_known:
        new["input_arguments"] = _expected(call.input_arguments)
    if call.ok is False:
        new["status"] = "error"
    if call.tool_name in at_once:
        new["unordered"] = True
        if any(wanted.tool_name in at_once and not wanted.unordered for wanted in met):
            return
    if question.reference(_CALLS) is None:
        yield Edit(base, [new])
        return
    before = [wanted for wanted, place in enumerate(places) if place is not None and place < index]
    yield Edit((*base, max(before) + 1 if before else 0), new, insert=True)


def _argument(
    expected: Any, actual: Any, path: tuple[str | int, ...], at: tuple[str | int, ...]
) -> Iterator[Edit]:
    """Yield the edit that expects the value of an argument, as deep as the reference goes."""
    for key in path:
        has = key in expected if isinstance(expected, dict) else isinstance(expected, list)
        if not has or (isinstance(expected, dict) and word_of(expected) is not None):
            break
        expected, actual, at = expected[key], actual[key], (*at, key)
    else:
        if (expected is None or expected == ANY_TEXT) and _can_be_expected(actual):
            yield Edit(at, actual)
        return
    if isinstance(expected, dict) and word_of(expected) is not None:
        return
    if isinstance(expected, dict) and _can_be_expected(actual[key]):
        yield Edit((*at, key), complete(None, actual[key]))
    elif expected is None and isinstance(key, str) and _can_be_expected(actual[key]):
        yield Edit(at, {key: complete(None, actual[key])})


def _expected(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as expected ones: generated values and content are free."""
    return {
        key: complete(None, value) if _can_be_expected(value) else None for key, value in arguments.items()
    }


def _agents(session: Session, question: GoldenQuestion) -> Iterator[Edit]:
    if agents := [name for name in session.agents or () if name not in question.agents_evaluated]:
        yield Edit(("agents_evaluated",), [*question.agents_evaluated, *agents])


def _trajectory(session: Session, question: GoldenQuestion, *, tools: bool) -> Iterator[Edit]:
    """Yield the edit that names all steps, or the agents alone.

    A reference that the session does not meet is not replaced.
    """
    names = [step.name for step in session.trajectory if tools or step.kind == "agent"]
    steps = names if tools else [name for name, _ in groupby(names)]
    expected = question.reference(_TRAJECTORY)
    if steps and (expected is None or (list(expected) != steps and is_subsequence(expected, steps, eq))):
        yield Edit((_DATA, _TRAJECTORY), steps)


def _gates(mutants: Iterable[Tried], sessions: Sequence[Audited]) -> Iterator[GateProposal]:
    """Yield gates that catch mutants that still survive, and that every audited session meets."""
    left = [one for one in mutants if one.fate is Fate.SURVIVED]
    if any(True for each in sessions for _ in overlapping(each.session)):
        return  # all of them expect an order
    for text in _GATES:
        if not left:
            return
        gate = parse_metric(text)

        def meets(session: Session, question: GoldenQuestion, gate: Any = gate) -> bool:
            if question.reference(gate.needs) is None:
                return True  # the gate is not requested for such questions, it would be inconclusive
            outcome = gate(session, question)
            return isinstance(outcome, Score) and outcome.value == 1

        edited_questions = {one.audited.question_ids: one.audited.question for one in left}
        if not all(
            meets(each.session, edited_questions.get(each.question_ids, each.question)) for each in sessions
        ):
            continue
        missed = [one for one in left if not meets(one.mutant.session, one.audited.question)]
        if missed:
            yield GateProposal(text, len(missed))
            left = [one for one in left if one not in missed]


class Spread(NamedTuple):
    """By how much sessions of one question differ: the standard deviation of the logarithms.

    It is pooled over questions; `freedom` are its degrees of freedom.
    """

    deviation: float
    freedom: int


def pooled_spread(questions: Iterable[Sequence[float]]) -> Spread:
    """Return the spread within questions, given the values of the sessions of each."""
    squares, freedom = 0.0, 0
    for values in questions:
        if len(values) > 1:
            squares += _squares(values)
            freedom += len(values) - 1
    return Spread(math.sqrt(squares / freedom) if freedom else 0.0, freedom)


def limit_of(values: Sequence[float], spread: Spread, slack: float) -> float | str:
    """Return the limit of a question with these values, of two digits, or the reason why there is none.

    A further session exceeds it with a probability of 0.1% if values are log-normal: it is the bound of
    Student's prediction interval, by the spread that is pooled or, if it is larger, the question's own. It is
    at least `slack` times the geometric mean.

    Source: G. J. Hahn, "Factors for calculating two-sided prediction intervals for samples from a normal
    distribution", Journal of the American Statistical Association 64, 1969.
    """
    number = len(values)
    if number < LEAST_SESSIONS:
        return f"{number} of the {LEAST_SESSIONS} sessions that a limit needs"
    if not is_installed("scipy"):
        return f"it needs scipy: {to_install('stats')}"
    usual = fmean(map(math.log, values))
    own = math.sqrt(_squares(values) / (number - 1))
    error = max(spread.deviation, own) * math.sqrt(1 + 1 / number)
    bound = usual + max(student_quantile(spread.freedom, 1 - _FAILING) * error, math.log(slack))
    limit = rounded_up(math.exp(bound))
    if math.log(limit) > usual + math.log(_MULTIPLE) - student_quantile(spread.freedom, _CAUGHT) * error:
        return f"sessions differ too much: one of {_MULTIPLE:g} times the usual would not be noticed"
    return limit


def _squares(values: Sequence[float]) -> float:
    logarithms = [math.log(value) for value in values]
    mean = fmean(logarithms)
    return sum((one - mean) ** 2 for one in logarithms)


def rounded_up(value: float) -> float:
    """Return a number above 0, rounded up to two digits."""
    digits = 1 - math.floor(math.log10(value))
    rounded = math.ceil(round(value * 10.0**digits, 6)) / 10.0**digits
    return int(rounded) if rounded.is_integer() else round(rounded, digits)
