"""Metrics of the limits on calls: how many are made beyond those expected, forbidden, too many or too early.

A call that failed is made all the same, unless the question says `"failed_calls": "ignore"`. A call that was
only requested may have been made: where it matters, the outcome is inconclusive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spangrade.converters.datasets.call_rules import AtMost, Before
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.call_text import call_text, listed, not_recorded, only_requested
from spangrade.evaluator.metrics.causes import Cause, Repair, call_spans, spans_of_repairs
from spangrade.evaluator.metrics.matching import json_equal
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.metrics.pairing import CallPairings, call_repairs, met_calls, pairings_of
from spangrade.evaluator.metrics.tool_names import did_you_mean, is_one, names_in, near_names
from spangrade.evaluator.session import PlannedCall, RequestedCall, Session, ToolInteraction
from spangrade.tracer.base.canonical_json import canonical

_Call = ToolInteraction | RequestedCall
# What forbids the code that a provider runs without a call's name (Gemini), and names of calls that run code.
_CODE_TOOLS = frozenset({"code_execution", "code_interpreter"})
_NAMED_CODE = _CODE_TOOLS | {"bash_code_execution"}
_MOST_VALUES = 2_000  # of one result that are looked at


@metric(needs="reference_tool_interactions", unit="calls", higher_is_better=False, grows=True)
def unexpected_calls(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls that meet no call of the reference, without failed calls before one that does.

    Inconclusive if it depends on arguments or results that are not recorded, or on whether a requested call
    was executed.

    Source: own definition.
    """
    return _further_calls(session, question, None)


@metric(needs="no_further_calls", threshold=0.0, unit="calls", higher_is_better=False, grows=True)
def no_further_calls(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls that meet no call of the reference, where it allows none: `unexpected_calls`.

    If the question lists tools, only calls of these count. Inconclusive if it depends on arguments or results
    that are not recorded, or on whether a requested call was executed.

    Source: own definition.
    """
    tools = question.reference("no_further_calls")
    return _further_calls(session, question, None if tools is True else tools)


@metric(needs="forbidden_tools", threshold=0.0, unit="calls", higher_is_better=False, grows=True)
def forbidden_tools(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls of the tools that the reference forbids, failed ones too unless it ignores them.

    Inconclusive if such a call was only requested.

    Source: own definition.
    """
    forbidden = question.reference("forbidden_tools")
    calls = _counted(session.tool_interactions, forbidden.tools, forbidden.failed_calls == "ignore")
    unknown = session.calls_unknown_of(forbidden.tools)
    requested = only_requested(_of(session.requested_calls, forbidden.tools))
    near = did_you_mean(near_names(session, forbidden.tools))
    found = outcome_of(session, calls, unknown or requested or near)
    return found if _CODE_TOOLS.isdisjoint(forbidden.tools) else _with_code_runs(found, session, len(calls))


def _with_code_runs(found: Score | Inconclusive, session: Session, calls: int) -> Score | Inconclusive:
    """Return the outcome with the runs of code that the model's provider made without a call's name."""
    ran = [call for call in session.llm_calls if call.code_executions]
    named = sum(call.provider and call.tool_name in _NAMED_CODE for call in session.tool_interactions)
    runs = sum(call.code_executions or 0 for call in ran) - named
    if runs <= 0:
        return found
    why = f"not expected: the model's provider ran code ({runs})"
    value, reason = float(calls + runs), f"{found.reason}; {why}" if calls else why
    if isinstance(found, Inconclusive):
        return Inconclusive(reason, value)
    return Score(value, None, reason, (*found.evidence, *(call.span_id for call in ran)))


@metric(needs="at_most", threshold=0.0, unit="calls", higher_is_better=False, grows=True)
def at_most(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls beyond those that `at_most` allows of a tool, failed ones too unless ignored.

    Inconclusive if it depends on whether a requested call was executed.

    Source: own definition.
    """
    limits: Sequence[AtMost] = question.reference("at_most")
    names = names_in(limits)
    found = over_limit(session, limits, _ignores_failed(question), near_names(session, names))
    unknown = session.calls_unknown_of(names)
    return outcome_of(session, *found._replace(unknown=unknown or found.unknown))


@metric(needs="before", threshold=0.0, unit="calls", higher_is_better=False)
def before(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls without the earlier call that `before` asks for, failed ones too unless ignored.

    The earlier call has ended, without failing, before the other began. Inconclusive if it depends on times,
    arguments or results that are not recorded, or on whether a requested call was executed.

    Source: own definition.
    """
    rules: Sequence[Before] = question.reference("before")
    names = names_in(rules)
    if unknown := session.calls_unknown_of(names):  # an earlier call may be among those that are not recorded
        return Inconclusive(unknown)
    near = near_names(session, names)
    return outcome_of(session, *too_early(session, rules, _ignores_failed(question), near))


LIMITS = (unexpected_calls, no_further_calls, forbidden_tools, at_most, before)


def _beyond(calls: Sequence[ToolInteraction], most: int) -> list[ToolInteraction]:
    """Return the calls beyond a number of them: first those that repeat an earlier one, then the last."""
    if len(calls) <= most:
        return []
    repeated = [
        place
        for place, call in enumerate(calls)
        if any(
            earlier.arguments_known
            and call.arguments_known
            and json_equal(earlier.input_arguments, call.input_arguments)
            for earlier in calls[:place]
        )
    ]
    others = [place for place in range(len(calls)) if place not in repeated]
    dropped = [*repeated[::-1], *others[::-1]][: max(len(calls) - most, 0)]
    return [calls[place] for place in sorted(dropped)]


def _ignores_failed(question: GoldenQuestion) -> bool:
    return bool(question.reference("failed_calls") == "ignore")


def _of(calls: Iterable[RequestedCall], tools: Collection[str] | None) -> list[RequestedCall]:
    return [call for call in calls if tools is None or is_one(call.tool_name, tools)]


def _counted(
    calls: Iterable[ToolInteraction], tools: Collection[str] | None, without_failed: bool
) -> list[ToolInteraction]:
    """Return the calls of some tools (None: all), without those that failed if these do not count."""
    return [
        call
        for call in calls
        if (tools is None or is_one(call.tool_name, tools)) and not (without_failed and call.ok is False)
    ]


def _further_calls(session: Session, question: GoldenQuestion, tools: Collection[str] | None) -> Outcome:
    compared = pairings_of(session, question)
    unknown = session.calls_unknown_of(tools) or only_requested(_of(session.requested_calls, tools))
    if compared.pairing(compared.best_met).equal:
        return outcome_of(session, (), unknown)
    actual = _counted(compared.calls, tools, _ignores_failed(question))
    of_these = {call.position for call in actual}
    met = met_calls(session, question) & of_these
    perhaps_met = met_calls(session, question, at_best=True) & of_these
    certain: Sequence[ToolInteraction] = [call for call in actual if call.position not in perhaps_met]
    if certain and certain != actual:
        certain = _not_in_place(compared, certain)
    if len(perhaps_met) > len(met):
        names = {wanted.tool_name for calls in question.accepted_calls for wanted in calls}
        possible = [call for call in actual if call.tool_name in names]
        context = compared.context("subset")._replace(calls=session.tool_interactions)
        return outcome_of(session, certain, not_recorded(compared.best_met, possible, (), context) or unknown)
    return outcome_of(session, certain, unknown or did_you_mean(near_names(session, tools or ())))


class Found(NamedTuple):
    """The calls that do not keep to rules, why there may be more of them, and what is wrong with them.

    `due` are the places where another call was due, where it is one that is missing.
    """

    calls: Sequence[ToolInteraction]
    unknown: str
    what: str
    due: tuple[Cause, ...] | None = None


def over_limit(
    session: Session, limits: Sequence[AtMost], without_failed: bool, near: Mapping[str, str]
) -> Found:
    """Return the calls beyond those that limits allow of a tool; `near` are the names that may be wrong."""
    over: list[ToolInteraction] = []
    perhaps: list[RequestedCall] = []
    for limit in limits:
        calls = _counted(session.tool_interactions, (limit.tool,), without_failed)
        requested = _of(session.requested_calls, (limit.tool,))
        over += _beyond(calls, limit.calls)
        perhaps += requested if len(calls) + len(requested) > limit.calls else ()
    most = ", ".join(f"{limit.tool} {limit.calls}" for limit in limits)
    misspelled = did_you_mean({limit.tool: near[limit.tool] for limit in limits if limit.tool in near})
    return Found(over, only_requested(perhaps) or misspelled, f"expected at most {most}; beyond that")


def too_early(
    session: Session, rules: Sequence[Before], without_failed: bool, near: Mapping[str, str]
) -> Found:
    """Return the calls without the earlier call that rules ask for; `near` are names that may be wrong."""
    early: dict[int, ToolInteraction] = {}
    due: dict[tuple[str, ...], tuple[int, str]] = {}  # before which call what was due
    missing: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for rule in rules:
        if rule.then in near:
            unknown[did_you_mean({rule.then: near[rule.then]})] = None
        for call in _counted(session.tool_interactions, (rule.then,), without_failed):
            preceded, why = _is_preceded(call, rule, session)
            if not preceded and rule.first in near:
                preceded, why = None, did_you_mean({rule.first: near[rule.first]})
            if preceded is None:
                unknown[why] = None
            elif not preceded:
                early[call.position] = call
                missing[str(rule)] = None
                place = next(at for at, one in enumerate(session.tool_interactions) if one is call)
                key = (rule.first, *_needed(call, (*rule.same, *rule.from_result)))
                due[key] = min(due.get(key, (place, rule.first)), (place, rule.first))
        for requested in _of(session.requested_calls, (rule.then,)):
            if not _is_preceded(requested, rule, session)[0]:
                unknown[only_requested([requested])] = None
    ordered = sorted(due.values())
    places = spans_of_repairs(
        [Repair(number, None, at - 1 if at else None, at) for number, (at, _) in enumerate(ordered)],
        call_spans(session, session.tool_interactions),
        lambda one: ordered[one.expected or 0][1],
    )
    what = f"expected {'; '.join(missing)}; too early"
    return Found(list(early.values()), "; ".join(unknown), what, places)


def _needed(call: ToolInteraction, names: Sequence[str]) -> Iterator[str]:
    """Yield the values that an earlier call must share with a call: one serves all that need the same."""
    arguments = call.input_arguments if isinstance(call.input_arguments, dict) else {}
    for name in names:
        yield f"{name}={canonical(arguments[name])}" if name in arguments else f"call {call.position}"


def _not_in_place(compared: CallPairings, calls: Sequence[ToolInteraction]) -> Sequence[ToolInteraction]:
    """Return as many calls that meet none of the reference, those that are not in its order first."""
    made, pairing = compared.calls, compared.pairing(compared.best_met)
    _, found_repairs = call_repairs(pairing, compared.context("subset"), in_order=False, further=True)
    found = [
        made[one.actual]
        for one in found_repairs
        if one.actual is not None and (made[one.actual].ok is not False or made[one.actual] in calls)
    ]
    names, counted = (Counter(call.tool_name for call in each) for each in (found, calls))
    return found if names == counted else calls


def _is_preceded(call: _Call, rule: Before, session: Session) -> tuple[bool | None, str]:
    """Return whether the call that a rule asks for came before a call; if that is unknown, None and why."""
    why = ""
    for first in session.tool_interactions:
        if not is_one(first.tool_name, (rule.first,)) or first.ok is False or not first.ran:
            continue
        same = same_arguments(first, call, rule.same)
        result = result_has(first, call, rule.from_result)
        earlier = ended_before(first, call)
        if same and result and earlier:
            return True, ""
        if False not in (same, result, earlier):
            lacking = "arguments" if same is None else "results" if result is None else "times"
            why = f"whether {rule.first} came before {rule.then} depends on {lacking} that are not recorded"
    for requested in session.requested_calls:
        if not is_one(requested.tool_name, (rule.first,)) or requested.start_ns >= call.start_ns:
            continue
        if same_arguments(requested, call, rule.same) is not False:
            why = why or only_requested([requested])
    return (None, why) if why else (False, "")


def result_has(first: ToolInteraction, call: _Call, names: Sequence[str]) -> bool | None:
    """Return whether another call's result has values of a call's arguments, None if that is unknown."""
    if not names:
        return True
    if not first.output_known or _lacks(call, names):
        return None
    arguments = call.input_arguments
    if not isinstance(arguments, dict) or not all(name in arguments for name in names):
        return False
    values = values_in(first.output)
    return all(value_text(arguments[name]) in values for name in names)


def values_in(result: Any) -> set[str]:
    """Return the texts and numbers in a result, each as a text, of its first 2,000 values."""
    found: set[str] = set()
    waiting, seen = [result], 0
    while waiting and seen < _MOST_VALUES:
        one = waiting.pop()
        seen += 1
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        elif one is not None and not isinstance(one, bool):
            found.add(value_text(one))
    return found


def value_text(value: Any) -> str:
    """Return a value as the text by which it is looked for in results: 5 is "5", and so is 5.0."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _lacks(call: _Call, names: Sequence[str]) -> bool:
    """Return whether one of these arguments of a call is not recorded."""
    if not call.arguments_removed or not isinstance(call.input_arguments, dict):
        return not call.arguments_known
    return any(name in call.input_arguments and call.input_arguments[name] is None for name in names)


def same_arguments(first: _Call, call: _Call, names: Sequence[str]) -> bool | None:
    """Return whether two calls have equal values of arguments, None if these are not recorded.

    An argument that one of them does not have is not equal.
    """
    if not names:
        return True
    if _lacks(first, names) or _lacks(call, names):
        return None
    left, right = first.input_arguments, call.input_arguments
    return (
        isinstance(left, dict)
        and isinstance(right, dict)
        and all(name in left and name in right and json_equal(left[name], right[name]) for name in names)
    )


def ended_before(first: ToolInteraction, call: _Call) -> bool | None:
    """Return whether a call had ended when another began, None if their times do not say so."""
    if not _is_timed(first) or (isinstance(call, ToolInteraction) and not _is_timed(call)):
        return None
    if first.end_ns > call.start_ns:
        return False
    return True if first.start_ns < call.start_ns else None


def _is_timed(call: ToolInteraction) -> bool:
    """Return whether the times of a call are known: those of a span, or of the messages around it."""
    return call.span_id is None or call.latency_s is not None or isinstance(call, PlannedCall)


def outcome_of(
    session: Session,
    calls: Sequence[ToolInteraction],
    unknown: str,
    what: str = "not expected",
    due: tuple[Cause, ...] | None = None,
) -> Score | Inconclusive:
    """Return the number of calls, a lower bound if there may be more."""
    if not calls:
        return Inconclusive(unknown, 0.0) if unknown else Score(0.0, None, "none")
    names = listed([call_text(call) for call in calls])
    if unknown:
        return Inconclusive(f"{unknown}; {names}", float(len(calls)))
    every, counted = session.tool_interactions, set(map(id, calls))
    places = [place for place, call in enumerate(every) if id(call) in counted]
    causes = due or spans_of_repairs(
        [Repair(None, place) for place in places],
        call_spans(session, every),
        lambda one: every[one.actual or 0].tool_name,
    )
    return Score(float(len(calls)), None, f"{what}: {names}", causes)
