"""The page of sessions over time: each day's, by version, prompt, agent, model or environment."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

from spangrade.evaluator.grading.origin import left_out_origins
from spangrade.evaluator.statistics.trends.by import By
from spangrade.evaluator.statistics.trends.trend import Trend, trend
from spangrade.evaluator.view.charts import MeansChart, busiest, lines, means
from spangrade.evaluator.view.queries import page_query, query_rows, rows_of
from spangrade.evaluator.view.scope import SCOPE, scope_of
from spangrade.tracer.errors import InputError
from spangrade.tracer.quantities import parse_time
from spangrade.tracer.store import Store

_DAYS = 90  # that are shown unless others are asked for
_DAY_NS = 86_400 * 10**9
_MOST_METRICS = 500  # to choose from
_OWN = ("metric", "by", "series")
_PARAMETERS = (*_OWN, *SCOPE)
# What the lines are, in SQL over `derived.sessions`. A session of several agents or models is in the line of
# all of them together, so that sessions and costs are counted once.
SERIES = {
    "version": "agent_version",
    "prompt": "array_to_string(prompts::JSON::VARCHAR[], ', ')",
    "agent": "array_to_string(agents::JSON::VARCHAR[], ', ')",
    "model": "array_to_string(models::JSON::VARCHAR[], ', ')",
    "environment": "environment",
}
_UNITS = {"share": "percent", "USD": "usd", "seconds": "seconds"}

Row = Mapping[str, Any]


def trends_page(
    store: Store, texts: Mapping[str, str], only: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the values of `trends.html`: the last 90 days with sessions, or those that a URL asks for.

    Its parameters are the header's filters, `series`, one of `SERIES`, and, for one metric, `metric` and
    `by`. With `only` the sessions are among those of these ids. Raises InputError for one that is not
    a time, a series, an origin or a metric.
    """
    given = {name: text for name in _PARAMETERS if (text := texts.get(name, "")).strip()}
    scope = scope_of(store, texts)
    chosen = scope.sessions(only, "since", "until")
    query = f"SELECT max(start_ns) FROM derived.sessions WHERE {chosen.condition}"  # noqa: S608 (our own text)
    (newest,) = store.query(query, dict(chosen.parameters))[0]
    newest = time.time_ns() if newest is None else newest
    until = parse_time(given["until"]) if "until" in given else newest + 1
    since = parse_time(given["since"]) if "since" in given else (until - _DAYS * _DAY_NS) // _DAY_NS * _DAY_NS
    series = given.get("series", "version")
    if series not in SERIES:
        raise InputError(f"series: {series[:80]!r}; expected one of {', '.join(SERIES)}")
    values: dict[str, Any] = {
        "given": given,
        "metrics": _metrics(store),
        "bys": [str(by) for by in By],
        "all_series": tuple(SERIES),
        "series": series,
        **scope.values(),
        "kept": {name: text for name, text in given.items() if name in _OWN},
        "left_out_origins": left_out_origins(store, scope.origin),
    }
    if "metric" in given:
        among = None
        if only is not None or scope.given.keys() - {"origin", "since", "until"}:
            ids = f"SELECT session_id FROM derived.sessions WHERE {chosen.condition}"  # noqa: S608 (our own text)
            among = [session_id for (session_id,) in store.query(ids, dict(chosen.parameters))]
        asked = (given["metric"], given.get("by", By.DAY), since, until, scope.origin, among)
        return {**values, "trend": _trend_of(store, *asked)}
    parameters = {**chosen.parameters, "since": since, "until": until}
    query = page_query("trends").replace("$series", SERIES[series]).replace("$condition", chosen.condition)
    rows = query_rows(store, query, parameters)
    sessions: Counter[str] = Counter()
    for row in rows:
        sessions[row["series"]] += row["sessions"]
    names = busiest(sessions)
    first_days = query_rows(
        store, page_query("trends_deployments").replace("$condition", chosen.condition), parameters
    )
    deployments = {row["day"]: row["versions"] for row in first_days}
    return {
        **values,
        "trend": None,
        "rows": rows[::-1],
        "charts_shown": [
            {
                "title": title,
                "unit": unit,
                "chart": lines(_by_series(rows, names, value), most, deployments=deployments),
            }
            for title, unit, value, most in _CHARTS
        ],
        "charts_series": len(names),
        "left_out": len(sessions) > len(names),
        "filters_of": lambda name, day: {**scope.filters, **_filters_of(series, name, day)},
    }


def _filters_of(series: str, name: str, day: date) -> dict[str, str]:
    """Return the filters of the list that leave the sessions of a day in a series."""
    filters = {"since": str(day), "until": str(day + timedelta(days=1))}
    # Of several agents or models the list can name one.
    return {**filters, series: name.partition(", ")[0]} if name else filters


class MetricTrend(NamedTuple):
    """One metric by group, as `spangrade trend` has it, and its picture, None without values."""

    trend: Trend
    chart: MeansChart | None
    unit: str


def _metrics(store: Store) -> list[str]:
    measured = [row["metric"] for row in rows_of(store, "metrics_with_values", limit=_MOST_METRICS)]
    return list(dict.fromkeys(["passed", "cost", "latency", "tokens", *measured]))


def _trend_of(
    store: Store,
    metric: str,
    by: str,
    since: int,
    until: int,
    origin: str,
    among: Collection[str] | None,
) -> MetricTrend:
    found = trend(store, metric, by, since_ns=since, until_ns=until, origin=origin, among=among)
    shown = [
        (point.key or "not recorded", point.mean, point.low, point.high)
        for point in found.points
        if point.mean is not None
    ]
    return MetricTrend(found, means(shown), _UNITS.get(found.unit, "count"))


def _by_series(
    rows: Sequence[Row], names: Sequence[str], value: Callable[[Row], float | None]
) -> dict[str, dict[date, float]]:
    values: dict[str, dict[date, float]] = {name: {} for name in names}
    for row in rows:
        number = value(row)
        if row["series"] in values and number is not None and math.isfinite(number):
            values[row["series"]][row["day"]] = number
    return {name: by_day for name, by_day in values.items() if by_day}


_CHARTS: tuple[tuple[str, str, Callable[[Row], float | None], float | None], ...] = (
    ("Sessions per day", "count", lambda row: row["sessions"], None),
    (
        "Share of the graded sessions that passed",
        "percent",
        lambda row: row["passed"] / row["graded"] if row["graded"] else None,
        1,
    ),
    ("Mean cost per session", "usd", lambda row: row["mean_cost_usd"], None),
    ("Cost per day", "usd", lambda row: row["cost_usd"], None),
    ("Latency, 95th percentile", "seconds", lambda row: row["p95_s"], None),
    ("Share of the sessions with errors", "percent", lambda row: row["with_errors"] / row["sessions"], None),
)
