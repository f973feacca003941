"""The page of alerts: what is on, and what was."""

from __future__ import annotations

from typing import Any

from spangrade.evaluator.results.alarms import MOST, Alarm, stored_alarms
from spangrade.tracer.store import Store


def alerts_page(store: Store) -> dict[str, Any]:
    """Return the values of `alerts.html`: the alarms by cause, those that are on first, then the newest."""
    by_cause: dict[str, list[Alarm]] = {}
    for one in stored_alarms(store):
        by_cause.setdefault(one.alarm_id, []).append(one)
    return {"causes": list(map(_cause, by_cause.values())), "most": MOST}


def _cause(alarms: list[Alarm]) -> dict[str, Any]:
    ends = [one.ended_ns for one in alarms]
    return {
        "id": alarms[0].alarm_id,
        "alert": alarms[0].alert,
        "cause": alarms[0].cause,
        "details": alarms[0].details,
        "is_on": None in ends,
        "started_ns": min(one.started_ns for one in alarms),
        "ended_ns": None if None in ends else max(one for one in ends if one is not None),
        "alarms": alarms,
    }
