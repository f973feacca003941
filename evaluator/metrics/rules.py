"""Rules on the calls of any session, which need no golden question: each is a metric, and a gate.

A rule is broken by calls: a session is within it if none breaks it, also where it concerns no call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from spangrade.converters.datasets.call_rules import CallOrder, Rule, Told
from spangrade.evaluator.metrics.call_rules import (
    Found,
    ended_before,
    outcome_of,
    over_limit,
    same_arguments,
    too_early,
    value_text,
)
from spangrade.evaluator.metrics.call_text import only_requested
from spangrade.evaluator.metrics.masked import has_mask
from spangrade.evaluator.metrics.matching import MISSING
from spangrade.evaluator.metrics.metric import Inconclusive, Metric, Score
from spangrade.evaluator.metrics.reply_texts import contains
from spangrade.evaluator.metrics.state import path_in, value_at
from spangrade.evaluator.metrics.tool_names import did_you_mean, is_one, names_of_rule, near_names
from spangrade.evaluator.session import Session, ToolInteraction

PREFIX = "rule:"


def rule_metric(rule: Rule) -> Metric:
    """Return the metric of a rule, a gate: the number of calls that break it, expected 0."""
    return Metric(
        f"{PREFIX}{rule.name}",
        partial(broken_by, rule=rule),
        f"The number of calls that break the rule {rule.name}.",
        threshold=0.0,
        higher_is_better=False,
        unit="calls",
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
    names = names_of_rule(rule)
    if unknown := session.calls_unknown_of(names):
        return Inconclusive(unknown)
    without_failed = rule.failed_calls == "ignore"
    near = near_names(session, names)
    found = [
        over_limit(session, rule.at_most or (), without_failed, near),
        too_early(session, rule.before, without_failed, near),
        _after(session, rule.never_after, near),
        _not_followed(session, rule.followed_by, near),
        _not_told(session, rule.reply_has, near),
    ]
    calls = {call.position: call for one in found for call in one.calls}
    unknown = "; ".join(one.unknown for one in found if one.unknown)
    return outcome_of(
        session, list(calls.values()), unknown, "; ".join(one.what for one in found if one.calls)
    )


def triggers(rule: Rule, session: Session) -> bool:
    """Return whether a session has a call that a rule concerns."""
    tools = {call.tool_name for call in session.tool_interactions if call.ok is not False}
    made = {call.tool_name for call in session.tool_interactions}
    return (
        any(limit.tool in made for limit in rule.at_most or ())
        or any(one.then in made for one in rule.before)
        or any(one.first in tools and one.then in made for one in rule.never_after)
        or any(one.first in tools for one in rule.followed_by)
        or any(one.tool in tools for one in rule.reply_has)
    )


def _after(session: Session, rules: Sequence[CallOrder], near: Mapping[str, str]) -> Found:
    """Return the calls after one that rules do not allow before them."""
    late: dict[int, ToolInteraction] = {}
    unknown: dict[str, None] = {}
    for rule in rules:
        if all(name in near or _calls(session, name) for name in (rule.first, rule.then)):
            unknown.update(_misspelled((rule.first, rule.then), near))
        for first, then in _pairs(session, rule):
            same, after = same_arguments(first, then, rule.same), ended_before(first, then)
            if same and after:
                late[then.position] = then
            elif same is not False and after is None:
                unknown[f"whether {rule.then} came after {rule.first} is not recorded"] = None
            elif same is None and after:
                unknown[f"the arguments of {rule.first} or {rule.then} are not recorded"] = None
    text = ", ".join(f"{rule.then} never after {rule.first}" for rule in rules)
    return Found(list(late.values()), "; ".join(unknown), f"expected {text}; after it")


def _not_followed(session: Session, rules: Sequence[CallOrder], near: Mapping[str, str]) -> Found:
    """Return the calls that others should have followed, and none did."""
    alone: dict[int, ToolInteraction] = {}
    unknown: dict[str, None] = {}
    for rule in rules:
        unknown.update(_misspelled((rule.first,), near))
        for first in _done(session, rule.first):
            answers = [
                _both(same_arguments(first, then, rule.same), ended_before(first, then))
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
    text = ", ".join(f"{rule.first} followed by {rule.then}" for rule in rules)
    return Found(list(alone.values()), "; ".join(unknown), f"expected {text}; not so")


def _not_told(session: Session, rules: Sequence[Told], near: Mapping[str, str]) -> Found:
    """Return the calls of which no reply from their turn on has a value of the result."""
    untold: dict[int, ToolInteraction] = {}
    unknown: dict[str, None] = {}
    for rule in rules:
        unknown.update(_misspelled((rule.tool,), near))
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


def _calls(session: Session, tool: str) -> list[ToolInteraction]:
    return [call for call in session.tool_interactions if is_one(call.tool_name, (tool,))]


def _misspelled(names: Iterable[str], near: Mapping[str, str]) -> dict[str, None]:
    """Return why it is unknown what concerns tools, as a set: their names may be others."""
    return {did_you_mean({name: near[name]}): None for name in names if name in near}


def _both(left: bool | None, right: bool | None) -> bool | None:
    return False if False in (left, right) else None if None in (left, right) else True
