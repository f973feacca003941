"""Rules on calls with how they fare on sessions, for people and as JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spangrade.evaluator.reports.question_sentence import on_calls
from spangrade.evaluator.review.mining.call_rules import MinedRule


def rule_rows(mined: Iterable[MinedRule]) -> list[dict[str, Any]]:
    """Return a row for each rule: what it asks for, and how many sessions it concerns and break it."""
    return [
        {
            "rule": one.rule.name,
            "asks": "; ".join(on_calls(one.rule)),
            "draft": one.rule.draft,
            "sessions": one.rule.support,
            "break_it": one.rule.violators,
            "false_alarms": one.rule.false_alarms,
            "for_example": list(one.broken_by),
        }
        for one in mined
    ]
