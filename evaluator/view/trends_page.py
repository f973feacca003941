"""The page of sessions over time: each day's, by version of the agent."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from spangrade.evaluator.maintenance.delete import parse_time
from spangrade.evaluator.view.charts import busiest, lines
from spangrade.evaluator.view.queries import rows_of
from spangrade.tracer.store import Store

_DAYS = 90  # that are shown unless others are asked for
_DAY_NS = 86_400 * 10**9

Row = Mapping[str, Any]


def trends_page(store: Store, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of `trends.html`: the last 90 days with sessions, or those that a URL asks for.

    Its parameters are `since` and `until`. Raises InputError for one that is not a time.
    """
    given = {name: text for name in ("since", "until") if (text := texts.get(name, "")).strip()}
    (newest,) = store.query("SELECT max(start_ns) FROM derived.sessions")[0]
    newest = time.time_ns() if newest is None else newest
    until = parse_time(given["until"]) if "until" in given else newest + 1
    since = parse_time(given["since"]) if "since" in given else (until - _DAYS * _DAY_NS) // _DAY_NS * _DAY_NS
    rows = rows_of(store, "trends", since=since, until=until)
    sessions: Counter[str] = Counter()
    for row in rows:
        sessions[row["version"]] += row["sessions"]
    versions = busiest(sessions)
    return {
        "given": given,
        "rows": rows[::-1],
        "charts_shown": [
            {"title": title, "unit": unit, "chart": lines(_by_version(rows, versions, value), most)}
            for title, unit, value, most in _CHARTS
        ],
        "charts_versions": len(versions),
        "left_out": len(sessions) > len(versions),
    }


def _by_version(
    rows: Sequence[Row], versions: Sequence[str], value: Callable[[Row], float | None]
) -> dict[str, dict[date, float]]:
    values: dict[str, dict[date, float]] = {version: {} for version in versions}
    for row in rows:
        number = value(row)
        if row["version"] in values and number is not None and math.isfinite(number):
            values[row["version"]][row["day"]] = number
    return {version: by_day for version, by_day in values.items() if by_day}


_CHARTS: tuple[tuple[str, str, Callable[[Row], float | None], float | None], ...] = (
    ("Sessions per day", "count", lambda row: row["sessions"], None),
    (
        "Share of the graded sessions that passed",
        "percent",
        lambda row: row["passed"] / row["graded"] if row["graded"] else None,
        1,
    ),
    ("Mean cost per session", "usd", lambda row: row["mean_cost_usd"], None),
    ("Latency, 95th percentile", "seconds", lambda row: row["p95_s"], None),
    ("Share of the sessions with errors", "percent", lambda row: row["with_errors"] / row["sessions"], None),
)
