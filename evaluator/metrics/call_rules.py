"""What may be called, how often and after what, as a question or a rule of any session asks for it.

A call that failed is made all the same, unless `"failed_calls": "ignore"` says otherwise. A call that was
only requested may have been made: where it matters, the outcome is inconclusive. A session that a rule does
not concern keeps to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

from spangrade.converters.datasets.call_rules import (
    AtMost,
    CallOrder,
    CallRule,
    Forbidden,
    Rule,
    Told,
    asked_by,
)
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.call_text import call_text, listed, not_recorded, only_requested
from spangrade.evaluator.metrics.causes import Cause, Repair, call_spans, spans_of_repairs
from spangrade.evaluator.metrics.masked import has_mask
from spangrade.evaluator.metrics.matching import MISSING, json_equal
from spangrade.evaluator.metrics.metric import Inconclusive, Metric, Outcome, Score, metric
from spangrade.evaluator.metrics.pairing import CallPairings, call_repairs, met_calls, pairings_of
from spangrade.evaluator.metrics.reply_texts import contains
from spangrade.evaluator.metrics.state import path_in, value_at
from spangrade.evaluator.metrics.tool_names import did_you_mean, is_one, names_in, near_names
from spangrade.evaluator.session import PlannedCall, RequestedCall, Session, ToolInteraction
from spangrade.tracer.base.canonical_json import canonical

PREFIX = "rule:"
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
    return _broken(session, question, "forbidden_tools")


@metric(needs="at_most", threshold=0.0, unit="calls", higher_is_better=False, grows=True)
def at_most(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls beyond those that `at_most` allows of a tool, failed ones too unless ignored.

    Inconclusive if it depends on whether a requested call was executed.

    Source: own definition.
    """
    return _broken(session, question, "at_most")


@metric(needs="before", threshold=0.0, unit="calls", higher_is_better=False)
def before(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls without the earlier call that `before` asks for, failed ones too unless ignored.

    The earlier call has ended, without failing, before the other began. Inconclusive if it depends on times,
    arguments or results that are not recorded, or on whether a requested call was executed.

    Source: own definition.
    """
    return _broken(session, question, "before")


@metric(needs="never_after", threshold=0.0, unit="calls", higher_is_better=False, grows=True)
def never_after(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls after one that `never_after` does not allow before them, and that did not fail.

    Inconclusive if it depends on times or arguments that are not recorded.

    Source: own definition.
    """
    return _broken(session, question, "never_after")


@metric(needs="followed_by", threshold=0.0, unit="calls", higher_is_better=False)
def followed_by(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls that did not fail, without the later call that `followed_by` asks for.

    Inconclusive if it depends on times or arguments that are not recorded, or on whether a requested call was
    executed.

    Source: own definition.
    """
    return _broken(session, question, "followed_by")


@metric(needs="reply_has", threshold=0.0, unit="calls", higher_is_better=False)
def reply_has(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of calls of which no reply from their turn on has the value that `reply_has` names.

    Inconclusive if it depends on results or replies that are not recorded, or masked.

    Source: own definition.
    """
    return _broken(session, question, "reply_has")


LIMITS = (
    unexpected_calls,
    no_further_calls,
    forbidden_tools,
    at_most,
    before,
    never_after,
    followed_by,
    reply_has,
)
_GROWING = frozenset(one.name for one in LIMITS if one.grows)


def rule_metric(rule: Rule) -> Metric:
    """Return the metric of a rule, a gate: the number of calls that break it, expected 0."""
    return Metric(
        f"{PREFIX}{rule.name}",
        partial(broken_by, rule=rule),
        f"The number of calls that break the rule {rule.name}.",
        threshold=0.0,
        higher_is_better=False,
        unit="calls",
        grows=_GROWING.issuperset(asked_by(rule)),
        version=rule.digest,
    )


def rule_of(metric: Metric) -> Rule | None:
    """Return the rule that a metric measures, None for any other metric."""
    function = metric.function
    rule = function.keywords.get("rule") if isinstance(function, partial) else None
    return rule if isinstance(rule, Rule) else None


def broken_by(session: Session, *, rule: Rule) -> Score | Inconclusive:
    """Return the number of a session's calls that break a rule.

    Inconclusive if it depends on times, arguments, results or replies that are not recorded, or on whether a
    requested call was executed.
    """
    return _outcome(session, asked_by(rule), without_failed=rule.failed_calls == "ignore")


def _broken(session: Session, question: GoldenQuestion, kind: str) -> Score | Inconclusive:
    """Return the number of a session's calls that break what a question asks for by one of its keys."""
    asked = {kind: asked_by(question.reference_data)[kind]}
    return _outcome(session, asked, without_failed=_ignores_failed(question))


def _outcome(
    session: Session, asked: Mapping[str, Sequence[CallRule]], *, without_failed: bool
) -> Score | Inconclusive:
    names = names_in(asked)
    unknown = session.calls_unknown_of(names)
    if unknown and not _GROWING.issuperset(asked):  # what is missing may be among what is not recorded
        return Inconclusive(unknown)
    near = near_names(session, names)
    found = [_CHECKS[kind](session, rules, without_failed, near) for kind, rules in asked.items()]
    calls = {call.position: call for one in found for call in one.calls}
    why = unknown or "; ".join(one.unknown for one in found if one.unknown)
    what = "; ".join(one.what for one in found if one.calls)
    causes = [cause for one in found if one.calls for cause in one.due or _causes(session, one.calls)]
    outcome = outcome_of(session, list(calls.values()), why, what, tuple(causes))
    if _CODE_TOOLS.isdisjoint(name for one in asked.get("forbidden_tools", ()) for name in one.tools):
        return outcome
    return _with_code_runs(outcome, session, len(calls))


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


def triggers(rule: Rule, session: Session) -> bool:
    """Return whether a session has a call that a rule concerns; if it forbids tools, each is."""
    tools = {call.tool_name for call in session.tool_interactions if call.ok is not False}
    made = {call.tool_name for call in session.tool_interactions}
    return (
        rule.forbidden_tools is not None
        or any(limit.tool in made for limit in rule.at_most or ())
        or any(one.then in made for one in rule.before or ())
        or any(one.first in tools and one.then in made for one in rule.never_after or ())
        or any(one.first in tools for one in rule.followed_by or ())
        or any(one.tool in tools for one in rule.reply_has or ())
    )


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


# What is found by the rules of a kind; `near` are names that may be misspelled, each with what may be meant.


def _of_forbidden(session: Session, rules: Sequence[Forbidden], _: bool, near: Mapping[str, str]) -> Found:
    """Return the calls of tools that are forbidden, which say themselves whether failed ones count."""
    made: list[ToolInteraction] = []
    requested: list[RequestedCall] = []
    misspelled: dict[str, None] = {}
    for rule in rules:
        made += _counted(session.tool_interactions, rule.tools, rule.failed_calls == "ignore")
        requested += _of(session.requested_calls, rule.tools)
        misspelled.update(_misspelled(rule.tools, near))
    return Found(made, only_requested(requested) or "; ".join(misspelled), "not expected")


def _over_limit(
    session: Session, limits: Sequence[AtMost], without_failed: bool, near: Mapping[str, str]
) -> Found:
    """Return the calls beyond those that limits allow of a tool."""
    over: list[ToolInteraction] = []
    perhaps: list[RequestedCall] = []
    for limit in limits:
        calls = _counted(session.tool_interactions, (limit.tool,), without_failed)
        requested = _of(session.requested_calls, (limit.tool,))
        over += _beyond(calls, limit.calls)
        perhaps += requested if len(calls) + len(requested) > limit.calls else ()
    most = ", ".join(f"{limit.tool} {limit.calls}" for limit in limits)
    misspelled = "; ".join(_misspelled((limit.tool for limit in limits), near))
    return Found(over, only_requested(perhaps) or misspelled, f"expected at most {most}; beyond that")


def _too_early(
    session: Session, rules: Sequence[CallOrder], without_failed: bool, near: Mapping[str, str]
) -> Found:
    """Return the calls without the earlier call that rules ask for."""
    early: dict[int, ToolInteraction] = {}
    due: dict[tuple[str, ...], tuple[int, str]] = {}  # before which call what was due
    missing: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for rule in rules:
        unknown.update(_misspelled((rule.then,), near))
        for call in _counted(session.tool_interactions, (rule.then,), without_failed):
            preceded, why = _is_preceded(call, rule, session)
            if not preceded and rule.first in near:
                preceded, why = None, did_you_mean({rule.first: near[rule.first]})
            if preceded is None:
                unknown[why] = None
            elif not preceded:
                early[call.position] = call
                missing[f"{rule.first} before {rule.then}{rule.shared}"] = None
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


def _is_preceded(call: _Call, rule: CallOrder, session: Session) -> tuple[bool | None, str]:
    """Return whether the call that a rule asks for came before a call; if that is unknown, None and why."""
    why = ""
    for first in session.tool_interactions:
        if not is_one(first.tool_name, (rule.first,)) or first.ok is False or not first.ran:
            continue
        same = _same_arguments(first, call, rule.same)
        result = _result_has(first, call, rule.from_result)
        earlier = _ended_before(first, call)
        if same and result and earlier:
            return True, ""
        if False not in (same, result, earlier):
            lacking = "arguments" if same is None else "results" if result is None else "times"
            why = f"whether {rule.first} came before {rule.then} depends on {lacking} that are not recorded"
    for requested in session.requested_calls:
        if not is_one(requested.tool_name, (rule.first,)) or requested.start_ns >= call.start_ns:
            continue
        if _same_arguments(requested, call, rule.same) is not False:
            why = why or only_requested([requested])
    return (None, why) if why else (False, "")


def _result_has(first: ToolInteraction, call: _Call, names: Sequence[str]) -> bool | None:
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


def _same_arguments(first: _Call, call: _Call, names: Sequence[str]) -> bool | None:
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


def _ended_before(first: ToolInteraction, call: _Call) -> bool | None:
    """Return whether a call had ended when another began, None if their times do not say so."""
    if not _is_timed(first) or (isinstance(call, ToolInteraction) and not _is_timed(call)):
        return None
    if first.end_ns > call.start_ns:
        return False
    return True if first.start_ns < call.start_ns else None


def _is_timed(call: ToolInteraction) -> bool:
    """Return whether the times of a call are known: those of a span, or of the messages around it."""
    return call.span_id is None or call.latency_s is not None or isinstance(call, PlannedCall)


def _too_late(session: Session, rules: Sequence[CallOrder], _: bool, near: Mapping[str, str]) -> Found:
    """Return the calls after one that rules do not allow before them."""
    late: dict[int, ToolInteraction] = {}
    unknown: dict[str, None] = {}
    for rule in rules:
        if all(name in near or _calls(session, name) for name in (rule.first, rule.then)):
            unknown.update(_misspelled((rule.first, rule.then), near))
        for first, then in _pairs(session, rule):
            same, after = _same_arguments(first, then, rule.same), _ended_before(first, then)
            if same and after:
                late[then.position] = then
            elif same is not False and after is None:
                unknown[f"whether {rule.then} came after {rule.first} is not recorded"] = None
            elif same is None and after:
                unknown[f"the arguments of {rule.first} or {rule.then} are not recorded"] = None
        pairs = product(_perhaps(session, rule.first), _perhaps(session, rule.then))
        for one, other in pairs if session.requested_calls else ():
            requested = [call for call in (one, other) if isinstance(call, RequestedCall)]
            may_be_after = one is not other and one.start_ns <= other.start_ns
            if requested and may_be_after and _same_arguments(one, other, rule.same) is not False:
                unknown[only_requested(requested)] = None
    text = ", ".join(f"{rule.then} never after {rule.first}" for rule in rules)
    return Found(list(late.values()), "; ".join(unknown), f"expected {text}; after it")


def _not_followed(session: Session, rules: Sequence[CallOrder], _: bool, near: Mapping[str, str]) -> Found:
    """Return the calls that others should have followed, and none did."""
    alone: dict[int, ToolInteraction] = {}
    unknown: dict[str, None] = {}
    for rule in rules:
        unknown.update(_misspelled((rule.first,), near))
        for first in _done(session, rule.first):
            answers = [
                _both(_same_arguments(first, then, rule.same), _ended_before(first, then))
                for then in _done(session, rule.then)
            ]
            requested = [call for call in session.requested_calls if is_one(call.tool_name, (rule.then,))]
            if True in answers:
                continue
            if None in answers:
                unknown[f"whether {rule.then} followed {rule.first} is not recorded"] = None
            elif requested:
                unknown[only_requested(requested)] = None
            elif rule.then in near:
                unknown.update(_misspelled((rule.then,), near))
            else:
                alone[first.position] = first
        for asked in _of(session.requested_calls, (rule.first,)):
            after = [then for then in _done(session, rule.then) if asked.start_ns < then.start_ns]
            if not any(_same_arguments(asked, then, rule.same) for then in after):
                unknown[only_requested([asked])] = None
    text = ", ".join(f"{rule.first} followed by {rule.then}" for rule in rules)
    return Found(list(alone.values()), "; ".join(unknown), f"expected {text}; not so")


def _not_told(session: Session, rules: Sequence[Told], _: bool, near: Mapping[str, str]) -> Found:
    """Return the calls of which no reply from their turn on has a value of the result."""
    untold: dict[int, ToolInteraction] = {}
    unknown: dict[str, None] = {}
    for rule in rules:
        unknown.update(_misspelled((rule.tool,), near))
        if requested := _of(session.requested_calls, (rule.tool,)):
            unknown[only_requested(requested)] = None
        for call in _done(session, rule.tool):
            if not call.output_known:
                unknown[f"the result of {rule.tool} is not recorded"] = None
                continue
            value = value_at(call.output, path_in(call.output, rule.value))
            if value is MISSING or value is None or isinstance(value, bool | dict | list):
                continue
            replies = [turn.final_response for turn in session.turns if turn.turn >= (call.turn or 0)]
            text = value_text(value)
            if any(reply is not None and contains(reply, text) for reply in replies):
                continue
            if None in replies or has_mask(value) or any(map(has_mask, replies)):
                unknown["a reply that may have it is not recorded, or masked"] = None
            else:
                untold[call.position] = call
    text = ", ".join(f"a reply has {rule.value} of {rule.tool}" for rule in rules)
    return Found(list(untold.values()), "; ".join(unknown), f"expected that {text}; none after")


def _pairs(session: Session, rule: CallOrder) -> Iterator[tuple[ToolInteraction, ToolInteraction]]:
    for first in _done(session, rule.first):
        for then in session.tool_interactions:
            if is_one(then.tool_name, (rule.then,)) and then is not first:
                yield first, then


def _done(session: Session, tool: str) -> Iterator[ToolInteraction]:
    """Yield the calls of a tool that ran and did not fail."""
    return (call for call in _calls(session, tool) if call.ok is not False and call.ran)


def _perhaps(session: Session, tool: str) -> list[_Call]:
    """Return the calls of a tool that did not fail, and those of which only the request is recorded."""
    return [*_done(session, tool), *_of(session.requested_calls, (tool,))]


def _calls(session: Session, tool: str) -> list[ToolInteraction]:
    return [call for call in session.tool_interactions if is_one(call.tool_name, (tool,))]


def _misspelled(names: Iterable[str], near: Mapping[str, str]) -> dict[str, None]:
    """Return why it is unknown what concerns tools, as a set: their names may be others."""
    return {did_you_mean({name: near[name]}): None for name in names if name in near}


def _both(left: bool | None, right: bool | None) -> bool | None:
    return False if False in (left, right) else None if None in (left, right) else True


_CHECKS: Mapping[str, Callable[[Session, Any, bool, Mapping[str, str]], Found]] = MappingProxyType(
    {
        "forbidden_tools": _of_forbidden,
        "at_most": _over_limit,
        "before": _too_early,
        "never_after": _too_late,
        "followed_by": _not_followed,
        "reply_has": _not_told,
    }
)


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
    return Score(float(len(calls)), None, f"{what}: {names}", due or _causes(session, calls))


def _causes(session: Session, calls: Sequence[ToolInteraction]) -> tuple[Cause, ...]:
    every, counted = session.tool_interactions, set(map(id, calls))
    places = [place for place, call in enumerate(every) if id(call) in counted]
    return spans_of_repairs(
        [Repair(None, place) for place in places],
        call_spans(session, every),
        lambda one: every[one.actual or 0].tool_name,
    )
