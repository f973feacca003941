"""The page of sessions over time: each day's, by version, prompt, agent, model or environment."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from spangrade.evaluator.apps.server.pages.charts import (
    DAY,
    FEW,
    MONDAY_NS,
    Chart,
    ChartValue,
    busiest,
    drawn,
    step_for,
    time_axis,
)
from spangrade.evaluator.apps.server.pages.queries import page_query, rows_of
from spangrade.evaluator.reports.html.filters import SCOPE, scope_of
from spangrade.evaluator.reports.html.queries import query_rows
from spangrade.evaluator.results.origin import left_out_origins
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.statistics.by import By
from spangrade.evaluator.statistics.trends.trend import Trend, trend
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.quantities import parse_time
from spangrade.tracer.store import Store

_DAYS = 90  # that are shown unless others are asked for
_DAY_NS = 86_400 * 10**9
_MOST_METRICS = 500  # to choose from
_OWN = ("metric", "series")
_PARAMETERS = (*_OWN, *SCOPE)
# What the lines are, in SQL over `derived.sessions`. A session of several agents is in the line of all of
# them together, so that sessions and costs are counted once. Lines of models are of their calls.
SERIES = {
    "version": "agent_version",
    "prompt": "array_to_string(prompts::JSON::VARCHAR[], ', ')",
    "agent": "array_to_string(agents::JSON::VARCHAR[], ', ')",
    "model": "model",
    "environment": "environment",
}
_UNITS = {"share": "percent", "USD": "usd", "seconds": "seconds"}

Row = Mapping[str, Any]


def trends_page(
    store: Store, texts: Mapping[str, str], only: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the values of `trends.html`: the last 90 days with sessions, or those that a URL asks for.

    Without a series it is by version or, if there is only one, by model. Its parameters are the header's
    filters, and `series`, one of `SERIES`, or `metric`, for one by day; the form has both as `show`. With
    `only` the sessions are among those of these ids. Raises InputError for one that is not a time, a series,
    an origin or a metric.
    """
    shown, _, what = texts.get("show", "").partition(":")  # as the form has it
    asked = {**texts, shown: what} if shown in _OWN else texts
    given = {name: text for name in _PARAMETERS if (text := asked.get(name, "")).strip()}
    scope = scope_of(store, texts)
    chosen = scope.sessions(only, "since", "until")
    known = f"SELECT $end(start_ns) FROM derived.sessions WHERE {chosen.condition}"  # noqa: S608 (our own text)
    ((newest,),) = store.query(known.replace("$end", "max"), dict(chosen.parameters))
    newest = time.time_ns() if newest is None else newest
    until = parse_time(given["until"]) if "until" in given else newest + 1
    since = parse_time(given["since"]) if "since" in given else (until - _DAYS * _DAY_NS) // _DAY_NS * _DAY_NS
    series = given.get("series")
    if not series:
        versions = known.replace("$end(start_ns)", "count(DISTINCT agent_version)")
        ((number,),) = store.query(versions, dict(chosen.parameters))
        series = "version" if number > 1 else "model"
    if series not in SERIES:
        raise InputError(f"series: {series[:80]!r}; expected one of {', '.join(SERIES)}")
    values: dict[str, Any] = {
        "given": given,
        "metrics": _metrics(store),
        "all_series": tuple(SERIES),
        "series": series,
        "few": FEW,
        "whole_time": {name: text for name, text in given.items() if name not in ("since", "until")},
        **scope.values(),
        "kept": {name: text for name, text in given.items() if name in _OWN},
        "left_out_origins": left_out_origins(store, scope.origin),
    }
    if "metric" in given:
        among = None
        if only is not None or scope.given.keys() - {"origin", "since", "until"}:
            ids = f"SELECT session_id FROM derived.sessions WHERE {chosen.condition}"  # noqa: S608 (our own text)
            among = [session_id for (session_id,) in store.query(ids, dict(chosen.parameters))]
        return {**values, "trend": _trend_of(store, given["metric"], since, until, scope.origin, among)}
    parameters = {**chosen.parameters, "since": since, "until": until}
    within = f"{known} AND start_ns >= $since AND start_ns < $until"
    ((oldest,),) = store.query(within.replace("$end", "min"), parameters)
    step = step_for(newest if oldest is None else oldest, min(until - 1, newest))
    parameters |= {"step": step.ns, "monday": MONDAY_NS}
    query = page_query("trends").replace("$series", SERIES[series]).replace("$condition", chosen.condition)
    query = query.replace(
        "$sessions", with_views("{model_sessions}") if series == "model" else "derived.sessions"
    )
    rows = query_rows(store, query, parameters)
    if not rows:
        return {**values, "trend": None, "rows": []}
    sessions: Counter[str] = Counter()
    for row in rows:
        sessions[row["series"]] += row["sessions"]
    names = busiest(sessions)
    axis = time_axis([row["slot"] for row in rows], step)
    first_seen = query_rows(
        store, page_query("trends_deployments").replace("$condition", chosen.condition), parameters
    )
    marks = {row["slot"]: f"first session of version {', '.join(row['versions'])}" for row in first_seen}
    charts = [
        Chart(one.title.format(slot=step.name), one.unit, _by_series(rows, names, one), one.most)
        for one in _CHARTS
    ]
    return {
        **values,
        "trend": None,
        "rows": [{**row, "at": axis.slots[axis.slot_of[row["slot"]]]} for row in reversed(rows)],
        "axis": axis,
        "names": names,
        "drawn": drawn(axis, charts, marks, lambda name: {**scope.filters, **_filters_of(series, name)}),
        "left_out": len(sessions) > len(names),
        "filters_of": lambda name, slot: {
            **scope.filters,
            "since": slot.since,
            "until": slot.until,
            **_filters_of(series, name),
        },
    }


def _filters_of(series: str, name: str) -> dict[str, str]:
    # Of several agents the list can name one.
    return {series: name.partition(", ")[0]} if name else {}


class MetricTrend(NamedTuple):
    """One metric by day, as `spangrade trend` has it, and its chart, None without values."""

    trend: Trend
    drawn: Mapping[str, Any] | None
    unit: str


def _metrics(store: Store) -> list[str]:
    measured = [row["metric"] for row in rows_of(store, "metrics_with_values", limit=_MOST_METRICS)]
    return list(dict.fromkeys(["passed", "cost", "latency", "tokens", *measured]))


def _trend_of(
    store: Store,
    metric: str,
    since: int,
    until: int,
    origin: str,
    among: Collection[str] | None,
) -> MetricTrend:
    found = trend(store, metric, By.DAY, since_ns=since, until_ns=until, origin=origin, among=among)
    unit = _UNITS.get(found.unit, "count")
    # Of times alone: a session without one is in the table.
    shown = [one for one in found.points if one.key and one.mean is not None and math.isfinite(one.mean)]
    keys = [datetime.fromisoformat(point.key or "") for point in shown]
    if not shown:
        return MetricTrend(found, None, unit)
    values = [ChartValue(one.mean or 0.0, one.sessions, one.low, one.high) for one in shown]
    chart = Chart("Mean by day, with 95% intervals", unit, {"": dict(zip(keys, values, strict=True))})
    return MetricTrend(found, drawn(time_axis(keys, DAY), [chart]), unit)


class _Measure(NamedTuple):
    """What a chart of the page shows of a row: of how many sessions, and whether that is their sum."""

    title: str
    unit: str
    value: Callable[[Row], float | None]
    number: Callable[[Row], int | None]
    most: float | None = None
    is_sum: bool = False


def _by_series(
    rows: Sequence[Row], names: Sequence[str], chart: _Measure
) -> dict[str, dict[Any, ChartValue]]:
    values: dict[str, dict[Any, ChartValue]] = {name: {} for name in names}
    for row in rows:
        number = chart.value(row)
        if row["series"] in values and number is not None and math.isfinite(number):
            value = ChartValue(number, chart.number(row), is_sum=chart.is_sum)
            values[row["series"]][row["slot"]] = value
    return values


_CHARTS = (
    _Measure("Sessions per {slot}", "count", lambda row: row["sessions"], lambda _: None, is_sum=True),
    _Measure(
        "Share of the graded sessions that passed",
        "percent",
        lambda row: row["passed"] / row["graded"] if row["graded"] else None,
        lambda row: row["graded"],
        1,
    ),
    _Measure(
        "Mean cost per session", "usd", lambda row: row["mean_cost_usd"], lambda row: row["known_costs"]
    ),
    _Measure(
        "Cost per {slot}", "usd", lambda row: row["cost_usd"], lambda row: row["known_costs"], is_sum=True
    ),
    _Measure("Tokens per {slot}", "count", lambda row: row["tokens"], lambda _: None, is_sum=True),
    _Measure("Latency, 95th percentile", "seconds", lambda row: row["p95_s"], lambda row: row["timed"]),
    _Measure(
        "Share of the sessions with errors",
        "percent",
        lambda row: row["with_errors"] / row["sessions"],
        lambda row: row["sessions"],
    ),
)
