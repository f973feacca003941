"""Rules on calls with how they fare on sessions, for people and as JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spangrade.converters.datasets.call_rules import KINDS, Rule, same_text
from spangrade.evaluator.review.mining.call_rules import MinedRule


def rule_rows(mined: Iterable[MinedRule]) -> list[dict[str, Any]]:
    """Return a row for each rule: what it asks for, and how many sessions it concerns and break it."""
    return [
        {
            "rule": one.rule.name,
            "asks": rule_text(one.rule),
            "draft": one.rule.draft,
            "sessions": one.rule.support,
            "break_it": one.rule.violators,
            "false_alarms": one.rule.false_alarms,
            "for_example": list(one.broken_by),
        }
        for one in mined
    ]


def rule_text(rule: Rule) -> str:
    """Return what a rule asks for in words."""
    texts: Mapping[str, Any] = {kind: getattr(rule, kind) for kind in KINDS}
    parts = [str(one) for one in texts["before"]]
    parts += [f"at most {one.calls} {one.tool}" for one in texts["at_most"] or ()]
    parts += [f"{one.then} never after {one.first}{same_text(one.same)}" for one in texts["never_after"]]
    parts += [f"{one.first} is followed by {one.then}{same_text(one.same)}" for one in texts["followed_by"]]
    parts += [f"a reply has {one.value} of {one.tool}" for one in texts["reply_has"]]
    return "; ".join(parts)
