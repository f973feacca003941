"""Metrics of tool calls and their arguments, compared with `reference_tool_interactions`.

`pairing.py` says which call meets which. If arguments or results are not recorded, a metric is computed
twice: as if no such call matched, and as if every one did. If the values differ, it is inconclusive.

Of the reference and its `reference_tool_alternatives`, the list of calls counts that the session meets best,
among those that name the most of its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from spangrade.converters.datasets.golden import GoldenQuestion, ReferenceToolInteraction
from spangrade.evaluator.metrics.call_rules import LIMITS
from spangrade.evaluator.metrics.call_text import arguments_text, call_text, listed, not_recorded
from spangrade.evaluator.metrics.matching import ArgumentMatcher, precision, recall
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.metrics.pairing import (
    Context,
    Pairing,
    are_copies,
    compared_calls,
    compared_lists,
    in_order,
    is_match,
    pairing_of,
)
from spangrade.evaluator.metrics.user_values import user_values
from spangrade.evaluator.session import RequestedCall, Session, ToolInteraction

_MATCHERS = ("subset", "exact", "ignore")


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


METRICS = (
    tool_exact_match,
    tool_in_order_match,
    tool_any_order_match,
    tool_precision,
    tool_recall,
    tool_usage_accuracy,
    *LIMITS,
)


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
    if unknown := not_recorded(expected, actual, requested):
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
        return Inconclusive(not_recorded((), actual, requested), score)
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


def _differences(pairing: Pairing) -> tuple[str, tuple[str, ...]]:
    """Return what is missing, not expected or in another order, and the spans of the calls not expected."""
    missing = [
        f"{wanted.tool_name}{arguments_text(wanted.input_arguments)}"
        f"{' (failed)' if wanted.status == 'error' else ''}"
        for wanted, place in zip(pairing.expected, pairing.chosen, strict=True)
        if place is None
    ]
    paired = set(pairing.chosen)
    extra = [call for place, call in enumerate(pairing.actual) if place not in paired]
    parts = []
    if missing:
        parts.append(f"missing: {listed(missing)}")
    if extra:
        parts.append(f"not expected: {listed([call_text(call) for call in extra])}")
    if not missing and not in_order(pairing):
        parts.append(f"in another order: {listed([call.tool_name for call in pairing.actual])}")
    return "; ".join(parts), tuple(call.span_id for call in extra if call.span_id is not None)
