"""Which metrics there are, and how one is asked for: `NAME[:PARAMETER][>=T]`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, partial

from spangrade.evaluator.metrics.metric import Metric
from spangrade.tracer.errors import InputError
from spangrade.tracer.plugins import plugins

METRICS_GROUP = "spangrade.metrics"

_REQUEST = re.compile(
    r"(?P<name>\w[\w@.-]*)(:(?P<parameter>[^<>=]+?))?\s*((?P<sign>[<>]=?|=+)\s*(?P<threshold>.*))?", re.DOTALL
)


@cache
def load_metrics() -> Mapping[str, Metric]:
    """All installed metrics by name, from the entry points of the group `spangrade.metrics`.

    An entry point is a `Metric` or a sequence of them; ours come in by the same door. Raises `InputError`
    for one that cannot be loaded, is something else, or takes a name that is taken.
    """
    metrics: dict[str, Metric] = {}
    for plugin in plugins(METRICS_GROUP):
        loaded = plugin.load()
        for found in loaded if isinstance(loaded, (tuple, list)) else (loaded,):
            if not isinstance(found, Metric):
                raise plugin.error(f"expected a Metric or several, found {type(found).__name__}")
            if metrics.setdefault(found.name, found) is not found:
                raise plugin.error(f'the name "{found.name}" is taken')
    return metrics


def parse_metric(text: str, metrics: Mapping[str, Metric] | None = None) -> Metric:
    """The metric that `NAME`, `NAME>=T` or `NAME<=T` asks for, with its parameter and threshold set.

    Raises `InputError` for an unknown metric (with the nearest name), a parameter that the metric does
    not take, and a threshold that is no number, out of range or in the direction that cannot gate.
    """
    metrics = load_metrics() if metrics is None else metrics
    request = _REQUEST.fullmatch(text.strip())
    if request is None:
        raise InputError(f'metric "{text}": expected NAME, NAME>=THRESHOLD or NAME<=THRESHOLD')
    name = request["name"]
    if name not in metrics:
        near = get_close_matches(name, metrics, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(sorted(metrics))}"
        raise InputError(f'metric "{name}" is not known; {hint}')
    asked = _with_parameter(metrics[name], request["parameter"])
    return _with_threshold(asked, request["sign"], request["threshold"]) if request["sign"] else asked


def parse_metrics(texts: Iterable[str], metrics: Mapping[str, Metric] | None = None) -> tuple[Metric, ...]:
    """The metrics asked for, as by `parse_metric`. Raises `InputError` for one that is asked for twice."""
    asked: dict[str, Metric] = {}
    for text in texts:
        found = parse_metric(text, metrics)
        if asked.setdefault(found.name, found) is not found:
            raise InputError(f'metric "{found.name}" is asked for twice')
    return tuple(asked.values())


def _with_parameter(asked: Metric, parameter: str | None) -> Metric:
    if asked.parameter is None:
        if parameter is not None:
            raise InputError(f'metric "{asked.name}" takes nothing after a colon, found "{parameter}"')
        return asked
    if parameter is None:
        if not asked.choices:
            raise InputError(f'metric "{asked.name}" needs a {asked.parameter}: {asked.name}:NAME')
        return asked
    if asked.choices and parameter not in asked.choices:
        choices = ", ".join(asked.choices)
        raise InputError(f'metric "{asked.name}": "{parameter}" is no {asked.parameter}; there are {choices}')
    return replace(
        asked,
        name=f"{asked.name}:{parameter}",
        function=partial(asked.function, **{asked.parameter: parameter}),
    )


def _with_threshold(asked: Metric, sign: str, text: str) -> Metric:
    wanted = {True: ">=", False: "<=", None: sign}[asked.higher_is_better]
    if sign != wanted or sign not in (">=", "<="):
        right = ">= or <=" if asked.higher_is_better is None else wanted
        raise InputError(f'metric "{asked.name}": expected {right} before the threshold, found {sign}')
    try:
        threshold = float(text)
    except ValueError as error:
        raise InputError(f'metric "{asked.name}": expected a number after {sign}, found "{text}"') from error
    low, high = asked.bounds
    if not low <= threshold <= high or math.isinf(threshold):
        bounds = f"from {low:g} up" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise InputError(f'metric "{asked.name}": expected a threshold {bounds}, found {text}')
    return replace(asked, threshold=threshold, higher_is_better=sign == ">=")
