"""Statistics of samples, each value of which is zero, one, two, unknown, huge or negative."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cases import cases, check

from spangrade.evaluator.metrics.latency import nearest_rank
from spangrade.evaluator.statistics import intervals, shifts
from spangrade.evaluator.statistics.agreement.agreement import corrected_rate
from spangrade.evaluator.statistics.agreement.statistics import Confusion, cohens_kappa, rate
from spangrade.evaluator.statistics.comparison import differences, exact, means
from spangrade.evaluator.statistics.comparison.compare import judge_error
from spangrade.evaluator.statistics.comparison.condition import questions_for
from spangrade.evaluator.statistics.comparison.graded import where_paths_differ
from spangrade.evaluator.statistics.failure_causes.groups import at_least
from spangrade.evaluator.statistics.repeats.rates import Tries, rates
from spangrade.evaluator.statistics.trends.trend import Summary, arithmetic


def _tested(found: Any) -> Any:
    """Return a difference with its interval."""
    return found if isinstance(found, differences.TooLittle) else found.at()


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "arithmetic": lambda bounds, *values: arithmetic(Summary(*values), tuple(bounds)),
    "at_least": at_least,
    "at_least_p": exact.at_least_p,
    "cohens_kappa": lambda *counts: cohens_kappa(Confusion(*counts)),
    "corrected_rate": lambda counts, passed, others: corrected_rate(Confusion(*counts), passed, others),
    "deviation_factors": intervals.deviation_factors,
    "exact_interval": exact.interval,
    "exchange_p_value": intervals.exchange_p_value,
    "holm": differences.holm,
    "judge_error": lambda *counts: judge_error(Confusion(*counts)),
    "evidence": shifts.evidence,
    "longest_usual_pause": shifts.longest_usual_pause,
    "mean_difference": lambda a, b, low, paired: _tested(means.mean_difference(a, b, low, is_paired=paired)),
    "median_difference": lambda a, b, low: _tested(means.median_difference(a, b, low, is_paired=True)),
    "nearest_rank": nearest_rank,
    "paired_difference": lambda a, b, *bounds: _tested(differences.paired_difference(a, b, bounds)),
    "questions_for": questions_for,
    "rate": rate,
    "rates": lambda *questions: rates([Tries(*one) for one in questions]),
    "rates_interval": intervals.rates_interval,
    "recovered": shifts.recovered,
    "rise": shifts.rise,
    "student_interval": intervals.student_interval,
    "student_p_value": intervals.student_p_value,
    "threshold": shifts.threshold,
    "unpaired_difference": lambda a, b, *bounds: _tested(differences.unpaired_difference(a, b, bounds)),
    "where_paths_differ": where_paths_differ,
    "wilson_interval": intervals.wilson_interval,
}


@cache
def called(name: str, arguments: str) -> Any:
    given = json.loads(arguments.replace('"inf"', "Infinity"))
    try:
        found = FUNCTIONS[name](*given)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        return {"raises": type(error).__name__}
    return rounded(found)


def rounded(found: Any) -> Any:
    """Return what was found to nine digits: libraries of numbers differ beyond."""
    if isinstance(found, float):
        return float(f"{found:.9g}") if math.isfinite(found) else str(found)
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        return {name: rounded(value) for name, value in zip(found._fields, found, strict=True)}
    if isinstance(found, dict):
        return {str(key): rounded(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [rounded(one) for one in found]
    return found if isinstance(found, str | int | bool | None) else str(found)


def statistics(given: dict[str, Any]) -> Any:
    return {name: called(name, json.dumps(arguments)) for name, arguments in given.items()}


@pytest.mark.parametrize(("file", "place"), cases("statistics"))
def test_a_statistic_follows_from_its_values(file: Path, place: str | None) -> None:
    check(file, place, statistics)
