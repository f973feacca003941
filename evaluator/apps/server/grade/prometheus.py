"""The exported metrics of `watch` for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from spangrade.evaluator.apps.server.grade.failures import Failed
from spangrade.evaluator.apps.server.grade.totals import (
    COST,
    INSTRUMENTS,
    JUDGE_CALLS,
    JUDGE_COST,
    LABELS,
    LATENCY,
    SCORE,
    SESSIONS,
    Key,
    Total,
    attributes_of,
    bounds_of,
    counted,
)

# The name of each metric, and its label beside those of its sessions, with the attribute that it is.
_NAMES = {
    SESSIONS: ("spangrade_sessions", {"verdict": "spangrade.verdict"}),
    SCORE: ("spangrade_score", {"metric": "gen_ai.evaluation.name"}),
    COST: ("spangrade_cost_usd", {}),
    LATENCY: ("spangrade_latency_seconds", {}),
    JUDGE_CALLS: ("spangrade_judge_calls", {}),
    JUDGE_COST: ("spangrade_judge_cost_usd", {}),
}
_OF_SESSIONS = dict(zip(("agent", "service", "environment", "model", "version"), LABELS, strict=True))


class TotalsCollector(Collector):
    """Gives what `totals` returns whenever metrics are asked for; a label is empty if it is not recorded.

    `failures` returns the sessions that failed since the start of the process.
    """

    def __init__(
        self, totals: Callable[[], Mapping[Key, Total]], failures: Callable[[], Mapping[Failed, int]]
    ) -> None:
        self._totals = totals
        self._failures = failures

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: what there is is known when it is asked for."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        totals = self._totals()
        for instrument, (name, own) in _NAMES.items():
            of_judge = instrument in (JUDGE_CALLS, JUDGE_COST)
            labels = own if of_judge else {**own, **_OF_SESSIONS}
            counters = CounterMetricFamily(name, INSTRUMENTS[instrument].description, labels=list(labels))
            histograms = HistogramMetricFamily(name, INSTRUMENTS[instrument].description, labels=list(labels))
            for key, total in totals.items():
                if key[0] != instrument:
                    continue
                attributes = attributes_of(key)
                values = [attributes.get(attribute, "") for attribute in labels.values()]
                if total.buckets is None:
                    counters.add_metric(values, counted(instrument, total))
                else:
                    histograms.add_metric(values, _buckets(instrument, total), total.sum)
            yield from (one for one in (counters, histograms) if one.samples)
        failed = CounterMetricFamily(
            "spangrade_failed_sessions",
            "Sessions that failed since the start, by cause.",
            labels=Failed._fields,
        )
        for series, number in self._failures().items():
            failed.add_metric(series, number)
        yield failed


def _buckets(instrument: str, total: Total) -> list[tuple[str, float]]:
    """Return how many values are at most each bound."""
    buckets = total.buckets or []
    bounds = [*(f"{one:g}" for one in bounds_of(instrument, len(buckets))), "+Inf"]
    below, found = 0, []
    for bound, number in zip(bounds, buckets, strict=True):
        below += number
        found.append((bound, float(below)))
    return found
