"""The metrics: plain functions of a session (and of the golden question, where they need a reference)."""

from spangrade.evaluator.metrics.metric import Metric, metric
from spangrade.evaluator.metrics.registry import METRICS_GROUP, load_metrics, parse_metric, parse_metrics

__all__ = ["METRICS_GROUP", "Metric", "load_metrics", "metric", "parse_metric", "parse_metrics"]
