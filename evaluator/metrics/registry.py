"""The installed metrics, and how a metric is requested: `NAME[:PARAMETER…][>=T]`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial

from spangrade.evaluator.metrics.metric import Metric
from spangrade.tracer.base.errors import InputError, hint
from spangrade.tracer.base.plugins import Plugin, plugins

METRICS_GROUP = "spangrade.metrics"

_REQUEST = re.compile(
    r"(?P<name>\w[\w@.-]*)(:(?P<parameters>[^<>=]+?))?\s*((?P<sign>[<>]=?|=+)\s*(?P<threshold>.*))?",
    re.DOTALL,
)


# Names by which others know a metric: those of Vertex AI's Gen AI evaluation service.
ALIASES = {
    f"trajectory_{name}": f"trajectory:{by}"
    for name, by in (
        ("exact_match", "exact"),
        ("in_order_match", "in_order"),
        ("any_order_match", "any_order"),
        ("precision", "precision"),
        ("recall", "recall"),
    )
}
# Names that may be tried and are not a metric's, by the one that is meant.
_MEANT = {
    "tool_exact_match": "tools:exact",
    "tool_in_order_match": "tools:in_order",
    "tool_any_order_match": "tools:any_order",
    "tool_precision": "tools:precision",
    "tool_recall": "tools:recall",
    "conversation": "turns_answered",
    "forbidden_calls": "forbidden_tools",
    "further_calls": "no_further_calls",
    "calls_over_limit": "at_most",
    "calls_too_early": "before",
    "further_state": "reference_state_exact",
    "failed_assertions": "assertions",
    "goal_completion": "goal",
    "cost_limit": "max_cost_usd",
    "latency_limit": "max_latency_s",
}


@cache
def load_metrics() -> Mapping[str, Metric]:
    """Return all installed metrics by name, from the entry points of the group `spangrade.metrics`.

    An entry point is a `Metric` or a sequence of them; ours are loaded the same way. Raises `InputError`
    for one that cannot be loaded, is not a metric, or has the name of another.
    """
    return {name: metric for name, (metric, _) in _installed().items()}


@cache
def installed_versions() -> Mapping[str, str]:
    """Return the name and version of the package that brings each installed metric, by the metric's name."""
    return {name: plugin.brought_by for name, (_, plugin) in _installed().items()}


def version_of(metric: Metric) -> str | None:
    """Return the version of a metric's file or of the package that brings it; None if it has neither."""
    return metric.version or installed_versions().get(metric.name.partition(":")[0])


def _installed() -> Mapping[str, tuple[Metric, Plugin]]:
    metrics: dict[str, tuple[Metric, Plugin]] = {}
    for plugin in plugins(METRICS_GROUP):
        loaded = plugin.load()
        for metric in loaded if isinstance(loaded, (tuple, list)) else (loaded,):
            if not isinstance(metric, Metric):
                raise plugin.error(f"expected a Metric or several, found {type(metric).__name__}")
            if metrics.setdefault(metric.name, (metric, plugin))[0] is not metric:
                raise plugin.error(f'another metric has the name "{metric.name}"')
    return metrics


def parse_metric(text: str, metrics: Mapping[str, Metric] | None = None) -> Metric:
    """Return the metric that `NAME`, `NAME>=T` or `NAME<=T` requests, with its parameters and threshold set.

    Raises `InputError` for an unknown metric (with the nearest name), a parameter that the metric does
    not take or lacks, and a threshold that is not a number, out of range, or on the wrong side.
    """
    metrics = load_metrics() if metrics is None else metrics
    request = _REQUEST.fullmatch(text.strip())
    if request is None:
        raise InputError(f'metric "{text}": expected NAME, NAME>=THRESHOLD or NAME<=THRESHOLD')
    name, texts = request["name"], [request["parameters"]] if request["parameters"] else []
    if name in ALIASES and name not in metrics:
        name, by = ALIASES[name].split(":")
        texts.insert(0, by)
    if name not in metrics:
        near = (
            f'did you mean "{_MEANT[name]}"?' if name in _MEANT else hint(name, sorted(metrics), "there are")
        )
        raise InputError(f'metric "{name}" is not known; {near}')
    metric = _with_parameters(metrics[name], ":".join(texts))
    return _with_threshold(metric, request["sign"], request["threshold"]) if request["sign"] else metric


def parse_metrics(texts: Iterable[str], metrics: Mapping[str, Metric] | None = None) -> tuple[Metric, ...]:
    """Return the metrics that texts request, see `parse_metric`. Raises `InputError` for a repeated one."""
    requested: dict[str, Metric] = {}
    for text in texts:
        metric = parse_metric(text, metrics)
        if requested.setdefault(metric.name, metric) is not metric:
            raise InputError(f'metric "{metric.name}" is requested twice')
    return tuple(requested.values())


def _with_parameters(metric: Metric, text: str) -> Metric:
    """Return a metric with the parameters of a text: `exact`, `in_order:exact`, or what the metric takes."""
    if text and not metric.parameters:
        raise InputError(f'metric "{metric.name}" takes nothing after a colon, found "{text}"')
    values = text.split(":", len(metric.parameters) - 1) if text else []
    choices_of = dict(metric.parameters)
    given = dict(zip(choices_of, values, strict=False))
    for name, value in given.items():
        if (choices := choices_of[name]) and value not in choices:
            expected = ", ".join(choices)
            raise InputError(f'metric "{metric.name}": "{value}" is not a {name}; expected one of {expected}')
    if lacking := [name for name in metric.required if name not in given]:
        ways = [f"{metric.name}:{choice}" for choice in choices_of[lacking[0]] or ("NAME",)]
        raise InputError(f'metric "{metric.name}" needs a {lacking[0]}: {", ".join(ways)}')
    if not given:
        return metric
    return replace(metric, name=f"{metric.name}:{text}", function=partial(metric.function, **given))


def _with_threshold(metric: Metric, sign: str, text: str) -> Metric:
    is_own = metric.name.partition(":")[0] not in load_metrics()
    # A metric of the user's says its direction in the gate, where not in its definition.
    both_ways = metric.higher_is_better is None or (is_own and metric.higher_is_better)
    expected = ">= or <=" if both_ways else ">=" if metric.higher_is_better else "<="
    if sign not in expected.split(" or "):
        written = f"{sign[0]}=" if sign[0] in "<>" and f"{sign[0]}=" in expected else expected[:2]
        raise InputError(
            f'metric "{metric.name}": expected {expected} before the threshold, found {sign}; '
            f"write {metric.name}{written}{text}"
        )
    try:
        threshold = float(text)
    except ValueError as error:
        raise InputError(f'metric "{metric.name}": expected a number after {sign}, found "{text}"') from error
    low, high = metric.bounds
    if not low <= threshold <= high or math.isinf(threshold):
        bounds = f"of {low:g} or more" if math.isinf(high) else f"from {low:g} to {high:g}"
        better = ", higher_is_better=False" if sign == "<=" else ""
        line = f'; one that counts says so: @metric(unit="{metric.name}"{better})' if is_own else ""
        raise InputError(f'metric "{metric.name}": expected a threshold {bounds}, found {text}{line}')
    return replace(metric, threshold=threshold, higher_is_better=sign == ">=")
