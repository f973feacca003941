"""The metrics: plain functions of a session and, where they compare, of the golden question.

It stands on `derive` and what is below.
Begin with `metric.metric`.
"""

from spangrade.evaluator.metrics.metric import (
    Failure,
    Inconclusive,
    Metric,
    NotApplicable,
    Outcome,
    Score,
    metric,
)
from spangrade.evaluator.metrics.registry import load_metrics, parse_metric, parse_metrics

__all__ = [
    "Failure",
    "Inconclusive",
    "Metric",
    "NotApplicable",
    "Outcome",
    "Score",
    "load_metrics",
    "metric",
    "parse_metric",
    "parse_metrics",
]
