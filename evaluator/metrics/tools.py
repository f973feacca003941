"""Metrics of tool calls and their arguments, compared with `reference_tool_interactions`.

`pairing.py` says which call meets which. If arguments or results are not recorded, a metric is computed
twice: as if no such call matched, and as if every one did. If the values differ, it is inconclusive.

Of the reference and its `reference_tool_alternatives`, the list of calls counts that the session meets best,
among those that name the most of its calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spangrade.converters.datasets.golden import GoldenQuestion, ReferenceToolInteraction
from spangrade.evaluator.metrics.matching import ArgumentMatcher, precision, recall
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.metrics.pairing import (
    Context,
    Pairing,
    are_copies,
    best_met,
    compared_calls,
    compared_lists,
    in_order,
    is_match,
    met_calls,
    pairing_of,
    result_matches,
)
from spangrade.evaluator.metrics.references import lacks_result, result_tools
from spangrade.evaluator.metrics.user_values import user_values
from spangrade.evaluator.session import RequestedCall, Session, ToolInteraction, error_type

_MATCHERS = ("subset", "exact", "ignore")
_HOW = " (spangrade lint says how)"
_LONGEST_ARGUMENTS = 80  # characters of a call's arguments in a reason
_MOST_CALLS = 5  # calls listed in a reason


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_exact_match(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """1 if the calls are exactly the reference's, in order, else 0.

    Inconclusive if the value depends on arguments or results that are not recorded, or on whether a
    requested call was executed.

    Source: the trajectory metrics of Vertex AI's Gen AI evaluation service, over calls with their arguments.
    """
    return _score(session, question, matcher, lambda pairing: float(pairing.equal))


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_in_order_match(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """1 if the reference's calls were made in its order, with any others in between, else 0.

    Inconclusive if the value depends on arguments or results that are not recorded, or on whether a
    requested call was executed.

    Source: the trajectory metrics of Vertex AI's Gen AI evaluation service, over calls with their arguments.
    """
    return _score(
        session,
        question,
        matcher,
        lambda pairing: float(pairing.equal or in_order(pairing)),
    )


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_any_order_match(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """1 if all of the reference's calls were made, in any order, with any others in between, else 0.

    Inconclusive if the value depends on arguments or results that are not recorded, or on whether a
    requested call was executed.

    Source: the trajectory metrics of Vertex AI's Gen AI evaluation service, over calls with their arguments.
    """
    return _score(session, question, matcher, lambda pairing: float(pairing.matched == len(pairing.expected)))


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_precision(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """The share of the calls that match a call of the reference, each of which matches once.

    M / |A|: M pairs of calls in a largest one-to-one matching. 1 if both are empty, 0 if one is.
    Inconclusive if the value depends on arguments or results that are not recorded, or on whether a
    requested call was executed.

    Source: the trajectory metrics of Vertex AI's Gen AI evaluation service, over calls with their arguments.
    """
    return _score(
        session,
        question,
        matcher,
        lambda pairing: precision(pairing.matched, len(pairing.actual), len(pairing.expected)),
    )


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_recall(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """The share of the reference's calls that were made.

    M / |E|: M pairs of calls in a largest one-to-one matching. 1 if E is empty.
    Inconclusive if the value depends on arguments or results that are not recorded, or on whether a
    requested call was executed.

    Source: the trajectory metrics of Vertex AI's Gen AI evaluation service, over calls with their arguments.
    """
    return _score(session, question, matcher, lambda pairing: recall(pairing.matched, len(pairing.expected)))


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_usage_accuracy(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """The share of the reference's calls that were made, as in `tool_recall`.

    An empty reference expects no calls: 1 without calls, 0 with any.
    Inconclusive if the value depends on arguments or results that are not recorded, or on whether a
    requested call was executed.

    Source: own definition: the reference lists the calls that must happen.
    """
    return _score(session, question, matcher, _usage_accuracy)


@metric(needs="reference_tool_interactions", unit="calls", higher_is_better=False, grows=True)
def unexpected_calls(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls that meet no call of the reference, without failed calls before one that does.

    Inconclusive if it depends on arguments or results that are not recorded, or on whether a requested call
    was executed.

    Source: own definition.
    """
    return _further_calls(session, question)


@metric(needs="no_further_calls", threshold=0.0, unit="calls", higher_is_better=False, grows=True)
def further_calls(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls that meet no call of the reference, where it allows none: `unexpected_calls`.

    Inconclusive if it depends on arguments or results that are not recorded, or on whether a requested call
    was executed.

    Source: own definition.
    """
    return _further_calls(session, question)


@metric(needs="forbidden_tools", threshold=0.0, unit="calls", higher_is_better=False, grows=True)
def forbidden_calls(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls of the tools that the reference forbids, failed ones too.

    Inconclusive if such a call was only requested.

    Source: own definition.
    """
    forbidden = question.reference("forbidden_tools")
    calls = [call for call in session.tool_interactions if call.tool_name in forbidden]
    requested = [_requested(call) for call in session.requested_calls if call.tool_name in forbidden]
    return _count(calls, _unknown((), [], requested))


METRICS = (
    tool_exact_match,
    tool_in_order_match,
    tool_any_order_match,
    tool_precision,
    tool_recall,
    tool_usage_accuracy,
    unexpected_calls,
    further_calls,
    forbidden_calls,
)


def _further_calls(session: Session, question: GoldenQuestion) -> Score | Inconclusive:
    actual = compared_calls(session, question)
    met, perhaps_met = (met_calls(session, question, at_best=at_best) for at_best in (False, True))
    certain = [call for call in actual if call.position not in perhaps_met]
    if len(perhaps_met) > len(met):
        names = {wanted.tool_name for calls in question.accepted_calls for wanted in calls}
        possible = [call for call in actual if call.tool_name in names]
        return _count(certain, _unknown(best_met(session, question), possible, ()))
    return _count(certain, _unknown((), [], [_requested(call) for call in session.requested_calls]))


def _count(calls: Sequence[ToolInteraction], unknown: str) -> Score | Inconclusive:
    """Return the number of calls, a lower bound if there may be more."""
    listed = _listed([_call(call) for call in calls])
    if unknown:
        return Inconclusive(f"{unknown}; {listed}" if calls else unknown, float(len(calls)))
    spans = tuple(call.span_id for call in calls if call.span_id is not None)
    return Score(float(len(calls)), None, f"not expected: {listed}" if calls else "none", spans)


def _usage_accuracy(pairing: Pairing) -> float:
    made, expected = len(pairing.actual), len(pairing.expected)
    return recall(pairing.matched, expected) if expected else precision(0, made, 0)


def _score(
    session: Session, question: GoldenQuestion, matcher: ArgumentMatcher, value: Callable[[Pairing], float]
) -> Outcome:
    """Return the outcome for the list of calls that the session meets best."""
    values = user_values(session, question)
    outcomes: list[Score | Inconclusive] = []
    for expected in compared_lists(session, question):
        outcomes.append(_score_of(session, question, expected, matcher, values, value))
        if isinstance(outcomes[-1], Score) and outcomes[-1].value == 1:
            return outcomes[-1]
    unknown = next((outcome for outcome in outcomes if isinstance(outcome, Inconclusive)), None)
    if unknown is not None:
        return unknown
    return max((one for one in outcomes if isinstance(one, Score)), key=lambda score: score.value)


def _score_of(
    session: Session,
    question: GoldenQuestion,
    expected: Sequence[ReferenceToolInteraction],
    matcher: ArgumentMatcher,
    values: Mapping[str, str],
    value: Callable[[Pairing], float],
) -> Score | Inconclusive:
    actual = compared_calls(session, question)
    if not expected and session.requested_calls:
        return _score_of_none(actual, [_requested(call) for call in session.requested_calls], value)
    if are_copies(expected, actual):
        return Score(1.0, None, "as expected")
    context = Context(matcher, values, actual)
    pairing = pairing_of(expected, actual, lambda wanted, call: is_match(wanted, call, context) is True)
    score = value(pairing)
    if score == 1:
        return Score(1.0, None, "as expected")
    named = {call.tool_name for call in expected}
    requested = [_requested(call) for call in session.requested_calls if call.tool_name in named]
    if unknown := _unknown(expected, actual, requested):
        possible = sorted([*actual, *requested], key=lambda call: call.start_ns) if requested else actual
        context = Context(matcher, values, possible)
        pairing = pairing_of(
            expected, possible, lambda wanted, call: is_match(wanted, call, context) is not False
        )
        best = value(pairing)
        if best > score:
            return Inconclusive(unknown if best == 1 else f"{unknown}; {_differences(pairing)[0]}", best)
    return Score(score, None, *_differences(pairing))


def _score_of_none(
    actual: Sequence[ToolInteraction],
    requested: Sequence[ToolInteraction],
    value: Callable[[Pairing], float],
) -> Score | Inconclusive:
    """Return the outcome where no call is expected, and some were requested that may have been executed."""
    pairing = pairing_of((), actual, _never)
    score = value(pairing)
    if value(pairing_of((), [*actual, *requested], _never)) < score:
        return Inconclusive(_unknown((), actual, requested), score)
    return Score(score, None, *_differences(pairing)) if score < 1 else Score(1.0, None, "as expected")


def _never(_expected: ReferenceToolInteraction, _call: ToolInteraction) -> bool:
    return False


def _requested(call: RequestedCall) -> ToolInteraction:
    """Return a call that was only requested as one of which everything but the request is unknown."""
    return ToolInteraction(
        position=call.position,
        turn=call.turn,
        tool_name=call.tool_name,
        input_arguments=call.input_arguments,
        output=None,
        arguments_known=call.arguments_known,
        output_known=False,
        ok=None,
        error=None,
        call_id=call.call_id,
        agent=call.agent,
        handoff=False,
        latency_s=None,
        start_ns=call.start_ns,
        end_ns=call.start_ns,
        trace_id=call.trace_id,
        span_id=None,
    )


def _unknown(
    expected: Sequence[ReferenceToolInteraction],
    actual: Sequence[ToolInteraction],
    requested: Sequence[ToolInteraction],
) -> str:
    """Return what is not recorded of calls that might match, empty if all is."""
    arguments = [call.tool_name for call in actual if not call.arguments_known]
    referred = {tool for wanted in expected for tool in result_tools(wanted.input_arguments)}
    results = [
        call.tool_name
        for call in actual
        if (call.tool_name in referred and lacks_result(call))
        or any(
            wanted.tool_name == call.tool_name and result_matches(wanted, call) is None for wanted in expected
        )
    ]
    parts = [f"the arguments of {_listed(arguments)} are not recorded{_HOW}"] if arguments else []
    if requested:
        names = _listed([call.tool_name for call in requested])
        parts.append(f"whether {names} was executed is not recorded, only that it was requested")
    if results:
        parts.append(f"the result of {_listed(results)} is not recorded{_HOW}")
    return "; ".join(parts)


def _differences(pairing: Pairing) -> tuple[str, tuple[str, ...]]:
    """Return what is missing, not expected or in another order, and the spans of the calls not expected."""
    missing = [
        f"{wanted.tool_name}{_short(wanted.input_arguments)}{' (failed)' if wanted.status == 'error' else ''}"
        for wanted, place in zip(pairing.expected, pairing.chosen, strict=True)
        if place is None
    ]
    paired = set(pairing.chosen)
    extra = [call for place, call in enumerate(pairing.actual) if place not in paired]
    parts = []
    if missing:
        parts.append(f"missing: {_listed(missing)}")
    if extra:
        parts.append(f"not expected: {_listed([_call(call) for call in extra])}")
    if not missing and not in_order(pairing):
        parts.append(f"in another order: {_listed([call.tool_name for call in pairing.actual])}")
    return "; ".join(parts), tuple(call.span_id for call in extra if call.span_id is not None)


def _call(call: ToolInteraction) -> str:
    """Return a call that was made; if it failed, with the type of its error where its message has one."""
    failed = ""
    if call.ok is False:
        kind = error_type(call.error)
        failed = f" (failed: {kind})" if kind else " (failed)"
    return f"{call.tool_name}{_short(call.input_arguments)}{failed}"


def _short(arguments: Any) -> str:
    if arguments is None:
        return ""
    try:
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=repr)
    except RecursionError:
        text = "{…}"
    return text if len(text) <= _LONGEST_ARGUMENTS else text[:_LONGEST_ARGUMENTS] + "…"


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_CALLS
    return ", ".join(names[:_MOST_CALLS]) + (f" and {rest} more" if rest > 0 else "")
