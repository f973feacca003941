"""A metric of stored sessions by day, version of the agent, prompt or model: means with their intervals."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, NamedTuple

from spangrade.evaluator.metrics.stored_values import stored_bounds
from spangrade.evaluator.results.origin import OriginFilter, one_of, origin_filter
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.statistics.by import By
from spangrade.evaluator.statistics.comparison.sample import PASSED, Measured, installed
from spangrade.evaluator.statistics.intervals import student_interval, wilson_interval
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

_PACKAGE = "spangrade.evaluator.statistics.trends"

_KEYS = {
    By.DAY: "make_timestamp(start_ns // 1000)::DATE::VARCHAR",
    By.VERSION: "agent_version",
    By.PROMPT: "unnest(coalesce(nullif(prompts::JSON::VARCHAR[], []), [NULL]))",
    By.MODEL: "unnest(coalesce(nullif(models::JSON::VARCHAR[], []), [NULL]))",
}
_BY_KEY, _BY_FIRST_SESSION = "questions.key NULLS LAST", "min(first_ns), questions.key"
# Known of every session, graded or not: the column, and what it measures.
_OF_SESSIONS = {
    "cost": ("cost_usd", "USD"),
    "latency": ("total_s", "seconds"),
    "tokens": ("input_tokens + output_tokens", "tokens"),
}
MIN_QUESTIONS_FOR_T = 30  # of values with bounds
MIN_UNBOUNDED = 1_000  # of values without
MIN_DIFFERENT = 10  # of values without bounds that are mostly equal


class Point(NamedTuple):
    """The sessions of one group.

    `key` is the day (`2026-01-31`, UTC, on which the sessions started), the version, the prompt or the model;
    None if it is not recorded. `sessions` have a value, `unknown` were graded (for cost, latency and tokens:
    are stored) and have none. `questions` is how many values the mean is of: one per question, and one per
    session without a question. `mean` is None without values; `low` and `high`, its 95% interval, are None
    if there is too little data.
    """

    key: str | None
    sessions: int
    unknown: int
    questions: int
    mean: float | None
    low: float | None
    high: float | None


class Trend(NamedTuple):
    """A metric by group: days in their order, the others in that of their first sessions.

    `unit` is that of the means. `higher_is_better` is None if neither direction is.
    """

    metric: str
    by: By
    unit: str
    higher_is_better: bool | None
    points: tuple[Point, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the trend as JSON values: the fields of it, and a list of the points' own."""
        return {**self._asdict(), "points": [point._asdict() for point in self.points]}


def trend(
    store: Store,
    metric: str,
    by: str = By.DAY,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    origin: str = OriginFilter.PRODUCTION,
    among: Collection[str] | None = None,
) -> Trend:
    """Return a metric of the sessions that started from `since_ns` on and before `until_ns`, by group.

    `metric` is `cost`, `latency` or `tokens` (of all stored sessions), `passed` (the share of the graded
    sessions that passed, by the verdict that each shows, without those that neither passed nor failed),
    or any metric that was measured: its value in the latest run that measured it on the session, else the
    mean of the scores of that name that people, traces and programs gave. A session that used several models
    or prompts counts for each of them; by model, cost, latency and tokens are those of the model's calls: the
    sum in a session, of latencies the mean. `among` are the only sessions that count. `origin` is one of
    `OriginFilter`.

    Raises InputError for another metric, for another `by`, and if an interval needs scipy and it is not
    installed.
    """
    group = one_of(By, by, "by")
    info = _measured(store, metric)
    low, high = info.bounds
    by_call = group is By.MODEL and metric in _OF_SESSIONS
    if metric in _OF_SESSIONS:
        values = statement("sessions", _PACKAGE).replace("{number}", _OF_SESSIONS[metric][0])
        values = values.replace("{sessions}", "{model_sessions}" if by_call else "derived.sessions")
        values = values.replace("{model}", "model" if by_call else "NULL")
    elif metric == PASSED:
        values = statement("passed", _PACKAGE)
    else:
        values = statement("scores", _PACKAGE)
    if among is not None:
        values = f"SELECT * FROM ({values}) WHERE list_contains($among, session_id)"  # noqa: S608 (our own text)
    parameters: dict[str, Any] = {
        **({} if among is None else {"among": list(among)}),
        "since": since_ns,
        "until": until_ns,
        "low": low,
        "high": high,
        "origin": origin_filter(origin),
    }
    if "$metric" in values:
        parameters["metric"] = metric
    query = statement("points", _PACKAGE).format(
        values=with_views(values),
        key="NULL" if by_call else _KEYS[group],
        shown="measured.model" if by_call else "grouped.key",
        order=_BY_KEY if group is By.DAY else _BY_FIRST_SESSION,
    )
    points = [
        Point(key, sessions, unknown, values[0], *arithmetic(Summary(*values), info.bounds))
        for key, sessions, unknown, *values in store.query(query, parameters)
    ]
    return Trend(metric, group, info.unit, info.higher_is_better, tuple(points))


def _measured(store: Store, metric: str) -> Measured:
    """Return the unit, the direction and the bounds of a metric. Raises InputError if nothing measured it."""
    if metric in _OF_SESSIONS:
        return Measured(False, (0.0, math.inf), _OF_SESSIONS[metric][1])
    if metric == PASSED:
        return installed(PASSED)
    recorded = store.query(
        "SELECT higher_is_better, lowest, highest, unit FROM run_metrics JOIN runs USING (run_id) "
        "WHERE metric = $metric ORDER BY graded_at DESC, run_id LIMIT 1",
        {"metric": metric},
    )
    if recorded:
        ((better, low, high, unit),) = recorded
        return Measured(better, stored_bounds(low, high), unit)
    measured = store.query("SELECT DISTINCT metric FROM scores WHERE value IS NOT NULL ORDER BY metric")
    names = [name for (name,) in measured]
    if metric not in names:
        known = ", ".join(dict.fromkeys([PASSED, *_OF_SESSIONS, *names]))
        raise InputError(f'no stored session has a value of "{metric}"; there are {known}')
    return installed(metric)


class Summary(NamedTuple):
    """What an interval needs of the values of `questions` questions.

    `equal` of them have the most common value; `is_binary` says whether all are the lowest or the highest
    possible value. The mean is None without values, the variance, that of a sample, without two.
    """

    questions: int
    equal: int
    is_binary: bool
    mean: float | None
    variance: float | None


class Mean(NamedTuple):
    """A mean, None without values, and its 95% interval, None if there is too little data."""

    mean: float | None
    low: float | None
    high: float | None


def arithmetic(values: Summary, bounds: tuple[float, float]) -> Mean:
    """Return the mean of values; `bounds` are the lowest and the highest possible one.

    Raises InputError if the interval needs scipy and it is not installed.

    The kind of the values chooses the interval. A value is that of a question; a question's sessions are
    averaged first, as in a comparison.

    | values | interval |
    |---|---|
    | 0 or 1 | Wilson |
    | with bounds: below 30 questions, or mostly equal | Wilson, on their scale |
    | with bounds, otherwise | Student's t |
    | without bounds (cost, seconds): from 1,000 questions on | Student's t |

    A few values of fifty times the others decide a mean, and few questions show none of them: of values of
    which 2% are so large, Student's interval contains the true mean in 85% of the cases with 200 questions,
    92% with 1,000 and 95% with 3,000. If values without bounds are mostly equal, ten must differ from the
    others. On a scale from 0 to 1, the variance of values is at most that of the same share of ones: there
    Wilson's interval is not too narrow.

    The sources of the intervals are in `evaluator/statistics/intervals.py`. Wilson's contains the true rate
    in 91.4% of the cases in the worst cell of the tests' grid, a rate of 0.95 and 10 questions.
    """
    lowest, highest = bounds
    number, mean = values.questions, values.mean
    if mean is None:
        return Mean(None, None, None)
    if math.isinf(highest - lowest):
        if number < MIN_UNBOUNDED or _are_rare(values):
            return Mean(mean, None, None)
    elif values.is_binary or number < MIN_QUESTIONS_FOR_T or values.equal > number / 2:
        scale = highest - lowest
        share = min(max((mean - lowest) / scale, 0.0), 1.0)
        low, high = wilson_interval(min(share * number, number), number)
        return Mean(mean, lowest + low * scale, lowest + high * scale)
    low, high = student_interval(mean, values.variance or 0.0, number)
    return Mean(mean, max(low, lowest), min(high, highest))


def _are_rare(values: Summary) -> bool:
    """Return whether values are mostly equal, and too few differ for an interval."""
    different = values.questions - values.equal
    return values.equal > values.questions / 2 and different < MIN_DIFFERENT
