"""Metrics of tool calls and their arguments, compared with `reference_tool_interactions`.

A hand-off counts only if the reference names its tool. If arguments are not recorded, a metric is computed
twice: as if no such call matched, and as if every one did. If the values differ, it is inconclusive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from spangrade.converters.datasets.golden import GoldenQuestion, ReferenceToolInteraction
from spangrade.evaluator.metrics.matching import (
    ArgumentMatcher,
    arguments_match,
    is_subsequence,
    maximum_matching,
    precision,
    recall,
)
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.session import Session, ToolInteraction

_MATCHERS = ("subset", "exact", "ignore")
_LONGEST_ARGUMENTS = 80  # characters of a call's arguments in a reason
_MOST_CALLS = 5  # calls listed in a reason

_Match = Callable[[ReferenceToolInteraction, ToolInteraction], bool]


class _Pairing(NamedTuple):
    """A largest one-to-one matching of expected and actual calls; `equal` if it pairs all, in order."""

    expected: Sequence[ReferenceToolInteraction]
    actual: Sequence[ToolInteraction]
    match: _Match
    chosen: Sequence[int | None]
    equal: bool

    @property
    def matched(self) -> int:
        return len(self.chosen) - list(self.chosen).count(None)


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_exact_match(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """1 if the calls are exactly the reference's, in order, else 0."""
    return _score(session, question, matcher, lambda pairing: float(pairing.equal))


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_in_order_match(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """1 if the reference's calls were made in its order, with any others in between, else 0."""
    return _score(
        session,
        question,
        matcher,
        lambda pairing: float(
            pairing.equal or is_subsequence(pairing.expected, pairing.actual, pairing.match)
        ),
    )


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_any_order_match(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """1 if all of the reference's calls were made, in any order, with any others in between, else 0."""
    return _score(session, question, matcher, lambda pairing: float(pairing.matched == len(pairing.expected)))


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_precision(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """The share of the calls that match a call of the reference, each of which matches once."""
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
    """The share of the reference's calls that were made."""
    return _score(session, question, matcher, lambda pairing: recall(pairing.matched, len(pairing.expected)))


@metric(needs="reference_tool_interactions", threshold=1.0, parameter="matcher", choices=_MATCHERS)
def tool_usage_accuracy(
    session: Session, question: GoldenQuestion, *, matcher: ArgumentMatcher = "subset"
) -> Outcome:
    """The share of the reference's calls that were made: the same as `tool_recall`."""
    outcome: Outcome = tool_recall(session, question, matcher=matcher)
    return outcome


METRICS = (
    tool_exact_match,
    tool_in_order_match,
    tool_any_order_match,
    tool_precision,
    tool_recall,
    tool_usage_accuracy,
)


def _score(
    session: Session, question: GoldenQuestion, matcher: ArgumentMatcher, value: Callable[[_Pairing], float]
) -> Outcome:
    expected = question.reference_data.reference_tool_interactions or ()
    named = {call.tool_name for call in expected}
    actual = [call for call in session.tool_interactions if not call.handoff or call.tool_name in named]
    pairing = _pair(expected, actual, lambda wanted, call: _is_match(wanted, call, matcher) is True)
    score = value(pairing)
    if score == 1:
        return Score(1.0, None, "as expected")
    unknown = [call.tool_name for call in actual if not call.arguments_known]
    if unknown:
        pairing = _pair(expected, actual, lambda wanted, call: _is_match(wanted, call, matcher) is not False)
        best = value(pairing)
        if best > score:
            reason = f"the arguments of {_listed(unknown)} are not recorded"
            return Inconclusive(reason if best == 1 else f"{reason}; {_differences(pairing)[0]}", best)
    return Score(score, None, *_differences(pairing))


def _is_match(
    expected: ReferenceToolInteraction, call: ToolInteraction, matcher: ArgumentMatcher
) -> bool | None:
    """Return whether a call matches; None if that depends on arguments that are not recorded."""
    if expected.tool_name != call.tool_name:
        return False
    wanted = expected.input_arguments
    if wanted is None or matcher == "ignore":
        return True
    if call.arguments_known:
        return arguments_match(wanted, call.input_arguments, matcher)
    return True if matcher == "subset" and all(value is None for value in wanted.values()) else None


def _pair(
    expected: Sequence[ReferenceToolInteraction], actual: Sequence[ToolInteraction], match: _Match
) -> _Pairing:
    if len(expected) == len(actual) and all(map(match, expected, actual)):
        return _Pairing(expected, actual, match, range(len(expected)), True)
    candidates = [[place for place, call in enumerate(actual) if match(wanted, call)] for wanted in expected]
    return _Pairing(expected, actual, match, maximum_matching(candidates), False)


def _differences(pairing: _Pairing) -> tuple[str, tuple[str, ...]]:
    """Return what is missing, not expected or in another order, and the spans of the calls not expected."""
    missing = [
        _call(wanted.tool_name, wanted.input_arguments)
        for wanted, place in zip(pairing.expected, pairing.chosen, strict=True)
        if place is None
    ]
    paired = set(pairing.chosen)
    extra = [call for place, call in enumerate(pairing.actual) if place not in paired]
    parts = []
    if missing:
        parts.append(f"missing: {_listed(missing)}")
    if extra:
        calls = [_call(call.tool_name, call.input_arguments) for call in extra]
        parts.append(f"not expected: {_listed(calls)}")
    if not missing and not is_subsequence(pairing.expected, pairing.actual, pairing.match):
        parts.append(f"in another order: {_listed([call.tool_name for call in pairing.actual])}")
    return "; ".join(parts), tuple(call.span_id for call in extra if call.span_id is not None)


def _call(name: str, arguments: Any) -> str:
    if arguments is None:
        return name
    try:
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=repr)
    except RecursionError:
        text = "{…}"
    return f"{name}{text if len(text) <= _LONGEST_ARGUMENTS else text[:_LONGEST_ARGUMENTS] + '…'}"


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_CALLS
    return ", ".join(names[:_MOST_CALLS]) + (f" and {rest} more" if rest > 0 else "")
