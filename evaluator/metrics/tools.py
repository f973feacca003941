"""Metrics of tool calls and their arguments, compared with `reference_tool_interactions`.

`pairing.py` says which call meets which. If arguments or results are not recorded, a metric is computed
twice: as if no such call matched, and as if every one did. If the values differ, it is inconclusive. Where a
turn that was driven shows no calls at all (`Session.calls_unknown`), nothing is compared.

Among the lists of calls, the reference and its `reference_tool_alternatives`, those that name the most of the
session's calls are compared. The list that the session meets best counts; of equal lists, the one with the
fewest causes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

from spangrade.converters.datasets.golden import GoldenQuestion, ReferenceToolInteraction
from spangrade.evaluator.derive.handoffs import is_handoff
from spangrade.evaluator.metrics.call_rules import LIMITS
from spangrade.evaluator.metrics.call_text import (
    MOST_CALLS,
    arguments_text,
    call_text,
    failure_text,
    listed,
    not_recorded,
    only_requested,
)
from spangrade.evaluator.metrics.causes import Cause, Repair, call_spans, spans_of_repairs
from spangrade.evaluator.metrics.matching import ArgumentMatcher, precision, recall
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.metrics.pairing import (
    CallPairings,
    Context,
    Pairing,
    as_call,
    call_differences,
    call_repairs,
    in_order,
    is_match,
    nearest_calls,
    pairing_of,
    pairings_of,
)
from spangrade.evaluator.metrics.shown import difference_text
from spangrade.evaluator.session import Session, ToolInteraction

_MATCHERS = ("subset", "exact", "superset", "ignore")
By = Literal["exact", "in_order", "any_order", "precision", "recall"]


@metric(
    needs="reference_tool_interactions",
    threshold=1.0,
    parameters={"by": get_args(By), "matcher": _MATCHERS},
)
def tools(
    session: Session, question: GoldenQuestion, *, by: By, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """The calls beside the reference's, with their arguments.

    By `exact`: 1 if they are exactly the reference's, in order, else 0. By `in_order`: 1 if the reference's
    calls were made in its order, with any others in between. By `any_order`: 1 if all of them were made.
    By `precision`: the share of the calls that match one of the reference, M / |A|; by `recall`: the share of
    the reference's calls that were made, M / |E|. M is the number of pairs of a largest one-to-one matching.
    Both empty: 1. Precision is 0 if one is empty, recall 0 if only A is.
    Inconclusive if the value depends on arguments or results that are not recorded, or on whether a
    requested call was executed.

    Source: the trajectory metrics of Vertex AI's Gen AI evaluation service, over calls with their arguments.
    """
    return _score(session, question, matcher, _RULES[by])


@metric(needs="reference_tool_interactions", threshold=1.0, parameters={"matcher": _MATCHERS})
def tool_usage_accuracy(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """The share of the reference's calls that were made, as in `tools:recall` (tool recall).

    An empty reference expects no calls: 1 without calls, 0 with any.
    Inconclusive if the value depends on arguments or results that are not recorded, or on whether a
    requested call was executed.

    Source: own definition: the reference lists the calls that must happen.
    """
    return _score(session, question, matcher, _USAGE)


METRICS = (tools, tool_usage_accuracy, *LIMITS)


class _Rule(NamedTuple):
    """The value of a pairing, and the errors that lower it: another order, further calls, missing ones.

    Without an expected call every call is one too many.
    """

    value: Callable[[Pairing], float]
    in_order: bool = False
    further: bool = False
    missing: bool = True


def _precision(pairing: Pairing) -> float:
    return precision(pairing.matched, len(pairing.actual), len(pairing.expected))


def _recall(pairing: Pairing) -> float:
    return recall(pairing.matched, len(pairing.expected))


def _usage_accuracy(pairing: Pairing) -> float:
    return _recall(pairing) if pairing.expected else precision(0, len(pairing.actual), 0)


_RULES = {
    "exact": _Rule(lambda pairing: float(pairing.equal), in_order=True, further=True),
    "in_order": _Rule(lambda pairing: float(pairing.equal or in_order(pairing)), in_order=True),
    "any_order": _Rule(lambda pairing: float(pairing.matched == len(pairing.expected))),
    "precision": _Rule(_precision, further=True, missing=False),
    "recall": _Rule(_recall),
}
_USAGE = _Rule(_usage_accuracy)


def _score(session: Session, question: GoldenQuestion, matcher: ArgumentMatcher, rule: _Rule) -> Outcome:
    """Return the outcome for the list of calls that the session meets best, with the fewest causes."""
    if session.calls_unknown:
        return Inconclusive(session.calls_unknown)
    compared = pairings_of(session, question)
    outcomes: list[Score | Inconclusive] = []
    for expected in compared.lists:
        outcome = _score_of(session, compared, expected, matcher, rule)
        outcomes.append(_with_others(session, expected, outcome, rule))
        if isinstance(outcomes[-1], Score) and outcomes[-1].value == 1:
            return outcomes[-1]
    unknown = next((outcome for outcome in outcomes if isinstance(outcome, Inconclusive)), None)
    if unknown is not None:
        return unknown
    scores = (one for one in outcomes if isinstance(one, Score))
    return max(scores, key=lambda score: (score.value, -len(score.evidence)))


def _with_others(
    session: Session,
    expected: Sequence[ReferenceToolInteraction],
    outcome: Score | Inconclusive,
    rule: _Rule,
) -> Score | Inconclusive:
    """Return an outcome as far as further calls that are not known cannot change it.

    Those are calls outside of the turns' contexts, and those that were only requested.
    """
    no_further = rule.further or not expected
    if isinstance(outcome, Inconclusive) or (outcome.value == 1 and not no_further):
        return outcome
    named = None if no_further else [call.tool_name for call in expected]
    if unknown := session.calls_unknown_of(named):
        return Inconclusive(f"{unknown}; {outcome.reason}")
    requested = [call for call in session.requested_calls if not is_handoff(call.tool_name)]
    if outcome.value == 1 and requested:
        return Inconclusive(only_requested(requested), 1.0)
    return outcome


def _score_of(
    session: Session,
    compared: CallPairings,
    expected: Sequence[ReferenceToolInteraction],
    matcher: ArgumentMatcher,
    rule: _Rule,
) -> Score | Inconclusive:
    actual = compared.calls
    if not expected and session.requested_calls:
        return _score_of_none(session, actual, list(map(as_call, session.requested_calls)), rule)
    pairing = compared.pairing(expected, matcher)
    score = rule.value(pairing)
    if score == 1:
        return Score(1.0, None, "as expected")
    context = compared.context(matcher)
    named = {call.tool_name for call in expected}
    requested = [as_call(call) for call in session.requested_calls if call.tool_name in named]
    if unknown := not_recorded(expected, actual, requested, context):
        possible = sorted([*actual, *requested], key=lambda call: call.start_ns) if requested else actual
        possible_context = context._replace(calls=possible)
        possible_pairing = pairing_of(
            expected, possible, lambda wanted, call: is_match(wanted, call, possible_context) is not False
        )
        best = rule.value(possible_pairing)
        if best > score:
            why = "" if best == 1 else f"; {_differences(possible_pairing, possible_context)}"
            return Inconclusive(f"{unknown}{why}", best)
    return Score(score, None, _differences(pairing, context), _causes(session, pairing, context, rule))


def _score_of_none(
    session: Session,
    actual: Sequence[ToolInteraction],
    requested: Sequence[ToolInteraction],
    rule: _Rule,
) -> Score | Inconclusive:
    """Return the outcome where no call is expected, and some were requested that may have been executed."""
    context = Context("subset", {}, actual)
    pairing = pairing_of((), actual, _never)
    score = rule.value(pairing)
    if rule.value(pairing_of((), [*actual, *requested], _never)) < score:
        return Inconclusive(not_recorded((), actual, requested, context), score)
    if score == 1:
        return Score(1.0, None, "as expected")
    return Score(score, None, _differences(pairing, context), _causes(session, pairing, context, rule))


def _never(_expected: ReferenceToolInteraction, _call: ToolInteraction) -> bool:
    return False


def _causes(session: Session, pairing: Pairing, context: Context, rule: _Rule) -> tuple[Cause, ...]:
    """Return the calls that have to be others, and the places where calls are due, so that the value is 1."""
    actual = pairing.actual
    further = rule.further or not pairing.expected
    expected, found = call_repairs(pairing, context, in_order=rule.in_order, further=further)
    if not rule.missing:  # one call that is met is all that is due
        found = [one for one in found if one.actual is not None] or found[:1]

    def path(one: Repair) -> str:
        if one.actual is None:
            return expected[one.expected or 0].tool_name
        call = actual[one.actual]
        wanted = None if one.expected is None or one.moved else expected[one.expected]
        if wanted is None or wanted.tool_name != call.tool_name:
            return call.tool_name
        return next((where for where, _ in call_differences(wanted, call, context)), call.tool_name)

    causes = spans_of_repairs(found, call_spans(session, actual), path)
    others = [call for call in session.tool_interactions if call.handoff and call not in actual]
    if not others:
        return causes
    return tuple(
        cause if one.actual is not None else _other_handoff(one, cause, actual, others)
        for one, cause in zip(found, causes, strict=True)
    )


def _other_handoff(
    due: Repair, cause: Cause, actual: Sequence[ToolInteraction], others: list[ToolInteraction]
) -> Cause:
    """Return the hand-off to another agent that was made where one is due, else the place itself.

    It is taken from the `others`: each stands for one that is due.
    """
    start_ns = 0 if due.after is None else actual[due.after].start_ns
    end_ns = None if due.before is None else actual[due.before].start_ns
    for call in others:
        is_there = start_ns <= call.start_ns and (end_ns is None or call.start_ns <= end_ns)
        if is_there and call.span_id is not None and is_handoff(cause.path):
            others.remove(call)
            return Cause(call.span_id, call.tool_name)
    return cause


def _differences(pairing: Pairing, context: Context) -> str:
    """Return the differences: missing calls, unexpected ones, other arguments, another order.

    An expected call and one of the same tool in its place are told by the first value that differs.
    """
    expected, actual = pairing.expected, pairing.actual
    paired = {place for place in pairing.chosen if place is not None}
    extra = [place for place in range(len(actual)) if place not in paired]
    differing, missing, explained = [], [], set()
    nearest = nearest_calls(expected, actual, pairing.chosen, context)
    for wanted, place, near in zip(expected, pairing.chosen, nearest, strict=True):
        why = None if near is None else _why_not(wanted, actual[near], context)
        if why is not None:
            differing.append(why)
            explained.add(near)
        elif place is None:
            failed = " (failed)" if wanted.status == "error" else ""
            missing.append(f"{wanted.tool_name}{arguments_text(wanted.input_arguments)}{failed}")
    parts = differing[:MOST_CALLS]
    if (more := len(differing) - MOST_CALLS) > 0:
        parts.append(f"{more} more calls differ")
    if missing:
        parts.append(f"missing: {listed(missing)}")
    if further := [call_text(actual[place]) for place in extra if place not in explained]:
        parts.append(f"not expected: {listed(further)}")
    if not missing and not differing and not in_order(pairing):
        parts.append(f"in another order: {listed([call.tool_name for call in actual])}")
    return "; ".join(parts)


def _why_not(wanted: ReferenceToolInteraction, call: ToolInteraction, context: Context) -> str | None:
    """Return why a call of the expected tool does not meet an expected call; None if that is not known."""
    found = sorted(call_differences(wanted, call, context), key=lambda one: one[1].undecided)
    if found:
        return f"{difference_text(*found[0])}{failure_text(call)}"
    if call.ok is False and wanted.status != "error" and wanted.output is None:
        return f"{call.tool_name}: expected to succeed{failure_text(call)}"
    if call.ok is True and wanted.status == "error":
        return f"{call.tool_name}: expected to fail, succeeded"
    return None
