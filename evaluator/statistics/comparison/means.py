"""The difference between the means of two samples of a metric without a highest value: cost, tokens, seconds.

A bill is a sum: what people pay is the mean, and a few sessions of fifty times the cost decide it. Few
questions show none of them, so that an interval of few questions is too narrow by any method: below
`MIN_QUESTIONS` there is none. tests/coverage_of_means.py measures how often intervals contain the truth if 2%
of the sessions cost fifty times as much in either sample, or in both.

The interval is the bootstrap-t of the factor between the means (of their difference, if a mean is 0 or values
may be negative), always of the same resamples; from `MAX_RESAMPLED` questions on it is Student's t. `median`
and `geometric` are asked for by name: `cost.median worse by 10%`.

Sources: P. Hall, "The bootstrap and Edgeworth expansion" (1992), section 3.2, for the bootstrap-t. W. J.
Conover, "Practical nonparametric statistics" (1999), section 3.2, for the interval of a median.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings

from spangrade.evaluator.statistics.comparison.differences import Difference, TooLittle, Values
from spangrade.evaluator.statistics.comparison.sample import mean
from spangrade.evaluator.statistics.intervals import (
    CONFIDENCE,
    exchange_p_value,
    student_p_value,
    student_quantile,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_QUESTIONS = 200  # with 150, an interval contained the truth in 88%
MAX_RESAMPLED = 2_000  # questions: beyond, Student's t contains it in 90% and more, and takes no time
MIN_DIFFERENT = 10  # of values that are mostly equal
MIN_QUESTIONS_OF_MEDIAN = 10
_RESAMPLES = 999
_AT_ONCE = 64  # resamples in memory


def mean_difference(
    first: Sequence[Values], second: Sequence[Values], lowest: float, *, is_paired: bool
) -> Difference | TooLittle:
    """Return the difference of two means: as a factor, if both are positive and no value may be below 0.

    `first` and `second` have the values of each question, the same ones in both if they are paired; `lowest`
    is the metric's lowest possible value.
    """
    questions = min(len(first), len(second))
    if not questions:
        return TooLittle("no question can be compared")
    before, after = (list(map(mean, side)) for side in (first, second))
    is_ratio = lowest >= 0 and fmean(before) > 0 and fmean(after) > 0
    estimate = fmean(after) / fmean(before) if is_ratio else fmean(after) - fmean(before)
    differing = sum(a != b for a, b in zip(before, after, strict=True)) if is_paired else questions
    if not differing and questions >= MIN_QUESTIONS:
        return Difference(estimate, estimate, estimate, 1.0, questions, "all values are equal", is_ratio)
    p_value = _p_value(before, after, is_paired=is_paired)
    reason = ""
    if questions < MIN_QUESTIONS:
        reason = f"{questions} questions; an interval of the mean needs {MIN_QUESTIONS}"
    elif differing < MIN_DIFFERENT:
        reason = f"{differing} of {questions} questions differ; at least {MIN_DIFFERENT} are needed"
    if reason:
        return TooLittle(reason, MIN_QUESTIONS, estimate, is_ratio, p_value)
    low, high = _interval(before, after, is_paired=is_paired, is_ratio=is_ratio)
    method = "bootstrap-t of means" if questions <= MAX_RESAMPLED else "t of means"
    return Difference(estimate, low, high, p_value, questions, method, is_ratio)


def median_difference(
    first: Sequence[Values], second: Sequence[Values], lowest: float, *, is_paired: bool
) -> Difference | TooLittle:
    """Return the median of the questions' factors, or of their differences if a value is 0 or may be below.

    The questions must be the same in both samples. Its interval needs no distribution.
    """
    from scipy.stats import quantile_test

    if not is_paired or not first:
        return TooLittle("a median needs questions that both have")
    pairs = [(mean(a), mean(b)) for a, b in zip(first, second, strict=True)]
    is_ratio = lowest >= 0 and all(a > 0 and b > 0 for a, b in pairs)
    changes = [b / a if is_ratio else b - a for a, b in pairs]
    found = quantile_test(changes, q=float(is_ratio), p=0.5)
    estimate, p_value = median(changes), float(found.pvalue)
    if len(changes) < MIN_QUESTIONS_OF_MEDIAN:
        reason = f"{len(changes)} questions; at least {MIN_QUESTIONS_OF_MEDIAN} are needed"
        return TooLittle(reason, MIN_QUESTIONS_OF_MEDIAN, estimate, is_ratio, p_value)
    bounds: Any = found.confidence_interval(CONFIDENCE)
    low, high = float(bounds.low), float(bounds.high)
    return Difference(estimate, low, high, p_value, len(changes), "order statistics", is_ratio)


def _p_value(before: Sequence[float], after: Sequence[float], *, is_paired: bool) -> float:
    """Return the p-value of the test that nothing changed: exact by exchanges where that is quick."""
    if not is_paired:
        if min(len(before), len(after)) < 2 or len({*before, *after}) == 1:
            return 1.0
        from scipy.stats import ttest_ind  # takes 0.4 s to import

        with catch_warnings(category=RuntimeWarning, action="ignore"):  # of values that are almost equal
            return float(ttest_ind(after, before, equal_var=False).pvalue)
    differences = [b - a for a, b in zip(before, after, strict=True)]
    if len(differences) < MIN_QUESTIONS:
        return exchange_p_value(differences)
    error = _deviation(differences) / math.sqrt(len(differences))
    return student_p_value(abs(fmean(differences)) / error, len(differences) - 1) if error else 0.0


def _deviation(values: Sequence[float]) -> float:
    center = fmean(values)
    return math.sqrt(math.fsum((value - center) ** 2 for value in values) / (len(values) - 1))


def _interval(
    before: Sequence[float], after: Sequence[float], *, is_paired: bool, is_ratio: bool
) -> tuple[float, float]:
    """Return the bounds of the 95% interval of a factor, or of a difference."""
    import numpy as np

    sides = np.asarray(before), np.asarray(after)
    measure = _log_ratio if is_ratio else _distance
    estimate, error = (float(value) for value in measure(*sides, is_paired))
    if min(map(len, sides)) > MAX_RESAMPLED:
        half = student_quantile(min(map(len, sides)) - 1)
        below, above = half, -half
    else:
        below, above = _resampled(*sides, estimate, measure, is_paired=is_paired)
    low, high = estimate - below * error, estimate - above * error
    return (math.exp(low), math.exp(high)) if is_ratio else (low, high)


def _resampled(
    before: NDArray[Any],
    after: NDArray[Any],
    estimate: float,
    measure: Callable[..., tuple[Any, Any]],
    *,
    is_paired: bool,
) -> tuple[float, float]:
    """Return how many standard errors an estimate is above the truth, at most and at least, in 95%."""
    import numpy as np

    random = np.random.default_rng(0)
    distances: list[Any] = []
    while (done := sum(map(len, distances))) < _RESAMPLES:
        number = min(_AT_ONCE, _RESAMPLES - done)
        chosen = random.integers(0, len(before), (number, len(before)))
        others = chosen if is_paired else random.integers(0, len(after), (number, len(after)))
        with np.errstate(divide="ignore", invalid="ignore"):
            found, error = measure(before[chosen], after[others], is_paired)
            distances.append(np.nan_to_num((found - estimate) / error, nan=0.0))
    ordered = np.sort(np.concatenate(distances))
    tail = round((1 - CONFIDENCE) / 2 * (_RESAMPLES + 1))
    return float(ordered[-tail]), float(ordered[tail - 1])


def _log_ratio(before: NDArray[Any], after: NDArray[Any], is_paired: bool) -> tuple[Any, Any]:
    """Return the logarithm of the factor between means, and its standard error, along the last axis."""
    import numpy as np

    means = before.mean(-1, keepdims=True), after.mean(-1, keepdims=True)
    _, error = _distance(before / means[0], after / means[1], is_paired)
    return np.log(means[1] / means[0])[..., 0], error


def _distance(before: NDArray[Any], after: NDArray[Any], is_paired: bool) -> tuple[Any, Any]:
    """Return the difference of means, and its standard error, along the last axis."""
    import numpy as np

    difference = after.mean(-1) - before.mean(-1)
    if is_paired:
        return difference, (after - before).std(-1, ddof=1) / math.sqrt(before.shape[-1])
    variances = (side.var(-1, ddof=1) / side.shape[-1] for side in (before, after))
    return difference, np.sqrt(sum(variances))
