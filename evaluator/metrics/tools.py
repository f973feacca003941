"""Metrics of tool calls and their arguments, compared with `reference_tool_interactions`.

A hand-off counts only if the reference names its tool. A call that failed matches only a reference that says
`"status": "error"` or gives the `output`. If arguments or results are not recorded, a metric is computed
twice: as if no such call matched, and as if every one did. If the values differ, it is inconclusive.

Of the reference and its `reference_tool_alternatives`, the list of calls counts that the session meets best.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
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
from spangrade.evaluator.metrics.references import lacks_result, refers, resolved, result_tools
from spangrade.evaluator.metrics.user_values import user_values
from spangrade.evaluator.session import RequestedCall, Session, ToolInteraction

_MATCHERS = ("subset", "exact", "ignore")
_HOW = " (spangrade lint says how)"
_LONGEST_ARGUMENTS = 80  # characters of a call's arguments in a reason
_MOST_CALLS = 5  # calls listed in a reason
NO_VALUES: Mapping[str, str] = MappingProxyType({})

_Match = Callable[[ReferenceToolInteraction, ToolInteraction], bool]


class _Context(NamedTuple):
    """How arguments are compared: the values of the user's texts, and the calls that may be referred to."""

    matcher: ArgumentMatcher
    values: Mapping[str, str]
    calls: Sequence[ToolInteraction]

    def before(self, call: ToolInteraction) -> list[ToolInteraction]:
        """Return the other calls that had begun when a call began."""
        return [other for other in self.calls if other is not call and other.start_ns <= call.start_ns]


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
        lambda pairing: float(pairing.equal or _in_order(pairing)),
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


def compared_calls(session: Session, question: GoldenQuestion) -> list[ToolInteraction]:
    """Return the calls that are compared with a reference: hand-offs only if it names them."""
    named = {call.tool_name for calls in question.accepted_calls for call in calls}
    return [call for call in session.tool_interactions if not call.handoff or call.tool_name in named]


def pair_calls(
    expected: Sequence[ReferenceToolInteraction],
    actual: Sequence[ToolInteraction],
    values: Mapping[str, str] = NO_VALUES,
) -> Sequence[int | None]:
    """Return the index of the call that meets each expected one, None where none does.

    Calls that match only if what is not recorded of them does are not paired. `values` are those of the
    user's texts, by the names that expected arguments have for them.
    """
    context = _Context("subset", values, actual)
    return _pair(expected, actual, lambda wanted, call: _is_match(wanted, call, context) is True).chosen


def best_met(session: Session, question: GoldenQuestion) -> tuple[ReferenceToolInteraction, ...]:
    """Return the list of calls, of those that a question accepts, of which a session made the most."""
    if len(question.accepted_calls) == 1:
        return question.accepted_calls[0]
    actual, values = compared_calls(session, question), user_values(session, question)

    def differing(calls: Sequence[ReferenceToolInteraction]) -> int:
        missing = list(pair_calls(calls, actual, values)).count(None)
        return missing + abs(len(actual) - len(calls) + missing)

    return min(question.accepted_calls, key=differing)


def _score(
    session: Session, question: GoldenQuestion, matcher: ArgumentMatcher, value: Callable[[_Pairing], float]
) -> Outcome:
    """Return the outcome for the list of calls that the session meets best."""
    values = user_values(session, question)
    outcomes: list[Score | Inconclusive] = []
    for expected in question.accepted_calls:
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
    value: Callable[[_Pairing], float],
) -> Score | Inconclusive:
    named = {call.tool_name for call in expected}
    actual = compared_calls(session, question)
    context = _Context(matcher, values, actual)
    pairing = _pair(expected, actual, lambda wanted, call: _is_match(wanted, call, context) is True)
    score = value(pairing)
    if score == 1:
        return Score(1.0, None, "as expected")
    requested = [_requested(call) for call in session.requested_calls if call.tool_name in named]
    if unknown := _unknown(expected, actual, requested):
        possible = sorted([*actual, *requested], key=lambda call: call.start_ns) if requested else actual
        context = _Context(matcher, values, possible)
        pairing = _pair(
            expected, possible, lambda wanted, call: _is_match(wanted, call, context) is not False
        )
        best = value(pairing)
        if best > score:
            return Inconclusive(unknown if best == 1 else f"{unknown}; {_differences(pairing)[0]}", best)
    return Score(score, None, *_differences(pairing))


def _is_match(expected: ReferenceToolInteraction, call: ToolInteraction, context: _Context) -> bool | None:
    """Return whether a call matches; None if that depends on what is not recorded of it."""
    if expected.tool_name != call.tool_name:
        return False
    parts = (_arguments_match(expected, call, context), _result_matches(expected, call))
    return False if False in parts else None if None in parts else True


def _arguments_match(
    expected: ReferenceToolInteraction, call: ToolInteraction, context: _Context
) -> bool | None:
    wanted = expected.input_arguments
    if wanted is None or context.matcher == "ignore":
        return True
    if call.arguments_known:
        if refers(wanted):
            earlier = context.before(call)
            tools = set(result_tools(wanted))
            if any(other.tool_name in tools and lacks_result(other) for other in earlier):
                return None
            wanted = resolved(wanted, context.values, earlier)
        return arguments_match(wanted, call.input_arguments, context.matcher)
    return True if context.matcher == "subset" and all(value is None for value in wanted.values()) else None


def _result_matches(expected: ReferenceToolInteraction, call: ToolInteraction) -> bool | None:
    if expected.output is not None:
        if not call.output_known:
            return None
        if not arguments_match(expected.output, call.output):
            return False
        if expected.status is None:
            return True
    if expected.status is not None:
        return None if call.ok is None else call.ok is (expected.status == "ok")
    only_requested = call.ok is None and not call.output_known and call.span_id is None
    return None if only_requested else call.ok is not False


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
            wanted.tool_name == call.tool_name and _result_matches(wanted, call) is None
            for wanted in expected
        )
    ]
    parts = [f"the arguments of {_listed(arguments)} are not recorded{_HOW}"] if arguments else []
    if requested:
        names = _listed([call.tool_name for call in requested])
        parts.append(f"whether {names} was executed is not recorded, only that it was requested")
    if results:
        parts.append(f"the result of {_listed(results)} is not recorded{_HOW}")
    return "; ".join(parts)


def _pair(
    expected: Sequence[ReferenceToolInteraction], actual: Sequence[ToolInteraction], match: _Match
) -> _Pairing:
    if len(expected) == len(actual) and all(map(match, expected, actual)):
        return _Pairing(expected, actual, match, range(len(expected)), True)
    candidates = [[place for place, call in enumerate(actual) if match(wanted, call)] for wanted in expected]
    chosen = maximum_matching(candidates)
    equal = len(expected) == len(actual) and _in_order(_Pairing(expected, actual, match, chosen, False))
    return _Pairing(expected, actual, match, chosen, equal)


def _in_order(pairing: _Pairing) -> bool:
    """Return whether the expected calls were made in order, successive unordered ones in any order.

    Each block of calls takes the shortest part of what is left: that leaves the most for the rest.
    """
    expected, actual, match = pairing.expected, pairing.actual, pairing.match
    if not any(call.unordered for call in expected):
        return is_subsequence(expected, actual, match)
    start = 0
    for block in _blocks(expected):
        candidates: list[list[int]] = [[] for _ in block]
        while None in maximum_matching(candidates):
            if start == len(actual):
                return False
            for wanted, places in zip(block, candidates, strict=True):
                if match(wanted, actual[start]):
                    places.append(start)
            start += 1
    return True


def _blocks(expected: Sequence[ReferenceToolInteraction]) -> Iterator[Sequence[ReferenceToolInteraction]]:
    """Yield calls in their order, successive unordered ones together."""
    for unordered, calls in groupby(expected, key=lambda call: call.unordered):
        if unordered:
            yield list(calls)
        else:
            yield from ([call] for call in calls)


def _differences(pairing: _Pairing) -> tuple[str, tuple[str, ...]]:
    """Return what is missing, not expected or in another order, and the spans of the calls not expected."""
    missing = [
        _call(wanted.tool_name, wanted.input_arguments, failed=wanted.status == "error")
        for wanted, place in zip(pairing.expected, pairing.chosen, strict=True)
        if place is None
    ]
    paired = set(pairing.chosen)
    extra = [call for place, call in enumerate(pairing.actual) if place not in paired]
    parts = []
    if missing:
        parts.append(f"missing: {_listed(missing)}")
    if extra:
        calls = [_call(call.tool_name, call.input_arguments, failed=call.ok is False) for call in extra]
        parts.append(f"not expected: {_listed(calls)}")
    if not missing and not _in_order(pairing):
        parts.append(f"in another order: {_listed([call.tool_name for call in pairing.actual])}")
    return "; ".join(parts), tuple(call.span_id for call in extra if call.span_id is not None)


def _call(name: str, arguments: Any, *, failed: bool) -> str:
    return f"{name}{_short(arguments)}{' (failed)' if failed else ''}"


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
