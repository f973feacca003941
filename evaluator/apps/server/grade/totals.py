"""The metrics that `spangrade serve --only grade` exports, as totals that are kept in the database.

They are written in one transaction with the scores, so that a killed process neither loses nor doubles any.
What is exported is their present state, counted since the first session that was graded. A series has the
agent, service, environment, model and version of its sessions, as far as they are recorded; of each metric at
most `MAX_SERIES` have them, and what is of others is in series that are named `other`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import nanoarrow as na
import orjson

from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.judge.run import Spent
from spangrade.evaluator.metrics import Metric, Score
from spangrade.evaluator.session import Session
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import canonical, dumps
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows

SESSIONS = "spangrade.sessions"
SCORE = "spangrade.score"
COST = "spangrade.cost"
LATENCY = "spangrade.latency"
JUDGE_CALLS = "spangrade.judge.calls"
JUDGE_COST = "spangrade.judge.cost"

MAX_SERIES = 1_000  # of a metric, beside those named `other`
OTHER = "other"
_EVALUATION = "gen_ai.evaluation.name"
# What of a session's series is named, in the conventions' words: the first agent, and the first model.
LABELS = (
    semconv.AGENT_NAME,
    semconv.SERVICE_NAME,
    semconv.ENVIRONMENT,
    semconv.RESPONSE_MODEL,
    semconv.AGENT_VERSION,
)

_SHARES = tuple(number / 10 for number in range(11))
_AMOUNTS = (0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000)
_COSTS = (0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_TIMES = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600)
_BOUNDS = {COST: _COSTS, LATENCY: _TIMES}
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
        Instrument(JUDGE_CALLS, "{call}", "questions to the judge"),
        Instrument(JUDGE_COST, "USD", "cost of the judge, where it is known"),
    )
}


@dataclass(slots=True)
class Total:
    """The state of a counter (no `buckets`) or of a histogram, since `start_ns`.

    A counter of an amount, such as a cost, has it in `sum`.
    """

    start_ns: int
    count: int = 0
    sum: float = 0.0
    min: float | None = None
    max: float | None = None
    buckets: list[int] | None = None

    def add(self, values: Sequence[float], bounds: tuple[float, ...]) -> None:
        """Count values of a histogram. One equal to a bound is below it, as OpenTelemetry has it."""
        self.count += len(values)
        self.sum += sum(values)
        self.min = min(values) if self.min is None else min(self.min, *values)
        self.max = max(values) if self.max is None else max(self.max, *values)
        if self.buckets is None:
            self.buckets = [0] * (len(bounds) + 1)
        for value in values:
            self.buckets[bisect_left(bounds, value)] += 1


_TYPES = {
    "name": na.string(),
    "key": na.string(),
    "start_ns": na.int64(),
    "count": na.int64(),
    "sum": na.float64(),
    "min": na.float64(),
    "max": na.float64(),
    "buckets_json": na.string(),
}
_KEYS = {"name": na.string(), "key": na.string()}

Key = tuple[str, str]  # a metric and its attributes as JSON
Labels = tuple[tuple[str, str], ...]  # attributes with their values


def bounds_of(name: str, buckets: int) -> tuple[float, ...]:
    """Return the upper bounds of a histogram's buckets."""
    return _BOUNDS.get(name) or _BOUNDS_OF_SIZE[buckets]


def read_totals(store: Store) -> dict[Key, Total]:
    """Return the totals by metric and attributes."""
    rows = store.query("SELECT * FROM watch_totals ORDER BY name, attributes")
    return {(name, attributes): Total(*rest) for name, attributes, *rest in rows}


class Counted(NamedTuple):
    """What totals have of a session; a cost or latency (s) that is not known is None."""

    labels: Labels
    cost_usd: float | None
    latency_s: float | None


def counted_of(session: Session) -> Counted:
    """Return what totals have of a session."""
    return Counted(labels_of(session), session.cost_usd, session.latency.total_s)


def add_to_totals(
    store: Store,
    graded: Iterable[tuple[Counted, Grade]],
    metrics: Mapping[str, Metric],
    judge: Spent,
    now_ns: int,
) -> None:
    """Count graded sessions, and what the judge spent on them, within the transaction that writes them.

    `metrics` are the gates and the requested metrics by name: the others are not exported.
    """
    values = _values(graded, metrics)
    if judge.calls:
        values[JUDGE_CALLS, ()] = [judge.calls]
        values[JUDGE_COST, ()] = [judge.cost_usd or 0.0]
    if not values:
        return
    known = set(store.query("SELECT name, attributes FROM watch_totals"))
    series = Counter(name for name, _ in known)
    added = [(_key(*one, known, series), one, numbers) for one, numbers in values.items()]
    keys = arrow_rows(list({key for key, *_ in added}), _KEYS)
    totals = {
        (name, attributes): Total(*rest)
        for name, attributes, *rest in store.query(
            "SELECT * FROM watch_totals WHERE (name, attributes) IN (FROM keys)", keys=keys
        )
    }
    first = store.query("SELECT coalesce(min(start_ns), $now) FROM watch_totals", {"now": now_ns})[0][0]
    for key, (name, attributes), numbers in added:
        total = totals.setdefault(key, Total(first))
        if name == JUDGE_COST:
            total.sum += sum(numbers)
        elif name in (SESSIONS, JUDGE_CALLS):
            total.count += int(sum(numbers))
        else:
            total.add(numbers, _bounds(name, attributes, metrics))
    store.query("DELETE FROM watch_totals WHERE (name, attributes) IN (FROM keys)", keys=keys)
    rows = [
        (*key, one.start_ns, one.count, one.sum, one.min, one.max, one.buckets and dumps(one.buckets))
        for key, one in totals.items()
    ]
    store.query(
        "INSERT INTO watch_totals "
        "SELECT * REPLACE (buckets_json::JSON::BIGINT[] AS buckets_json) FROM incoming",
        incoming=arrow_rows(rows, _TYPES),
    )


def _values(
    graded: Iterable[tuple[Counted, Grade]], metrics: Mapping[str, Metric]
) -> dict[tuple[str, Labels], list[float]]:
    """Return what sessions add to totals, by metric and attributes: a value of each, 1 to a counter."""
    values: defaultdict[tuple[str, Labels], list[float]] = defaultdict(list)
    for (labels, cost_usd, latency_s), grade in graded:
        values[SESSIONS, (("spangrade.verdict", grade.verdict.value), *labels)].append(1)
        for name in metrics:
            outcome = grade.outcomes.get(name)
            if isinstance(outcome, Score) and not outcome.is_bound:
                values[SCORE, ((_EVALUATION, name), *labels)].append(outcome.value)
        if cost_usd is not None:
            values[COST, labels].append(cost_usd)
        if latency_s is not None:
            values[LATENCY, labels].append(latency_s)
    return values


def _bounds(name: str, attributes: Labels, metrics: Mapping[str, Metric]) -> tuple[float, ...]:
    """Return the upper bounds of the buckets of a histogram that may be new."""
    if name in _BOUNDS:
        return _BOUNDS[name]
    return _SHARES if metrics[dict(attributes)[_EVALUATION]].bounds == (0.0, 1.0) else _AMOUNTS


def labels_of(session: Session) -> Labels:
    """Return what names the series of a session, as far as it is recorded."""
    agents, models = session.agents or (), session.models or ()
    values = (
        agents[0] if agents else None,
        session.service_name,
        session.environment,
        models[0] if models else None,
        session.agent_version,
    )
    return tuple((name, value) for name, value in zip(LABELS, values, strict=True) if value is not None)


def _key(metric: str, attributes: Labels, known: set[Key], series: Counter[str]) -> Key:
    """Return the series to which something is added: one named `other`, if there are too many."""
    key = metric, canonical(dict(attributes))
    if key in known:
        return key
    if series[metric] >= MAX_SERIES:
        others = {name: value for name, value in attributes if name not in LABELS}
        return metric, canonical(others | dict.fromkeys(LABELS, OTHER))
    known.add(key)
    series[metric] += 1
    return key


def counted(name: str, total: Total) -> float:
    """Return what a counter has counted."""
    return total.sum if name == JUDGE_COST else total.count


def attributes_of(key: Key) -> dict[str, str]:
    """Return the attributes of a metric's total."""
    found: dict[str, str] = orjson.loads(key[1])
    return found
