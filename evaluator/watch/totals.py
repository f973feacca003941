"""The metrics that `spangrade watch` exports, as totals that are kept in the database.

They are written in one transaction with the scores, so that a killed process neither loses nor doubles any.
What is exported is their present state, counted since the first session that was graded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.metrics import Metric, Score
from spangrade.evaluator.session import Session
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.store import Store

SESSIONS = "spangrade.sessions"
SCORE = "spangrade.score"
COST = "spangrade.cost"
LATENCY = "spangrade.latency"

_SHARES = tuple(number / 10 for number in range(11))
_AMOUNTS = (0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000)
_COSTS = (0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_TIMES = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600)
_BOUNDS_OF_SIZE = {len(bounds) + 1: bounds for bounds in (_SHARES, _AMOUNTS)}


class Instrument(NamedTuple):
    """A metric as it is exported."""

    name: str
    unit: str
    description: str


INSTRUMENTS = {
    one.name: one
    for one in (
        Instrument(SESSIONS, "{session}", "sessions that were graded, by verdict"),
        Instrument(SCORE, "1", "scores of the gates and the requested metrics"),
        Instrument(COST, "USD", "cost of a graded session, where it is known"),
        Instrument(LATENCY, "s", "latency of a graded session, where it is known"),
    )
}


@dataclass(slots=True)
class Total:
    """The state of a counter (no `buckets`) or of a histogram, since `start_ns`."""

    start_ns: int
    count: int = 0
    sum: float = 0.0
    min: float | None = None
    max: float | None = None
    buckets: list[int] | None = None

    def add(self, value: float, bounds: tuple[float, ...]) -> None:
        """Count a value of a histogram. A value equal to a bound is below it, as OpenTelemetry has it."""
        self.count += 1
        self.sum += value
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)
        if self.buckets is None:
            self.buckets = [0] * (len(bounds) + 1)
        self.buckets[bisect_left(bounds, value)] += 1


Key = tuple[str, str]  # a metric and its attributes as JSON


def bounds_of(name: str, buckets: int) -> tuple[float, ...]:
    """Return the upper bounds of a histogram's buckets."""
    return {COST: _COSTS, LATENCY: _TIMES}.get(name) or _BOUNDS_OF_SIZE[buckets]


def read_totals(store: Store) -> dict[Key, Total]:
    """Return the totals by metric and attributes."""
    rows = store.query("SELECT * FROM watch_totals ORDER BY name, attributes")
    return {(name, attributes): Total(*rest) for name, attributes, *rest in rows}


def add_to_totals(
    store: Store,
    graded: Iterable[tuple[Session, Grade]],
    metrics: Mapping[str, Metric],
    now_ns: int,
) -> None:
    """Count graded sessions, within the transaction that writes their scores.

    `metrics` are the gates and the requested metrics by name: the others are not exported.
    """
    totals = read_totals(store)
    start_ns = min((total.start_ns for total in totals.values()), default=now_ns)

    def total(name: str, **attributes: str) -> Total:
        return totals.setdefault((name, canonical(attributes)), Total(start_ns))

    for session, grade in graded:
        total(SESSIONS, **{"spangrade.verdict": grade.verdict.value}).count += 1
        for name, outcome in grade.outcomes.items():
            if name in metrics and isinstance(outcome, Score) and not outcome.is_bound:
                is_share = metrics[name].bounds == (0.0, 1.0)
                bounds = _SHARES if is_share else _AMOUNTS
                total(SCORE, **{"gen_ai.evaluation.name": name}).add(outcome.value, bounds)
        if session.cost_usd is not None:
            total(COST).add(session.cost_usd, _COSTS)
        if session.latency.total_s is not None:
            total(LATENCY).add(session.latency.total_s, _TIMES)
    store.query("DELETE FROM watch_totals")
    for (name, attributes), one in totals.items():
        store.query(
            "INSERT INTO watch_totals VALUES "
            "($name, $attributes, $start_ns, $count, $sum, $min, $max, $buckets)",
            {
                "name": name,
                "attributes": attributes,
                "start_ns": one.start_ns,
                "count": one.count,
                "sum": one.sum,
                "min": one.min,
                "max": one.max,
                "buckets": one.buckets,
            },
        )


def attributes_of(key: Key) -> dict[str, str]:
    """Return the attributes of a metric's total."""
    found: dict[str, str] = orjson.loads(key[1])
    return found
