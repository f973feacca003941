"""The difference between the means of two samples of a metric without a highest value: cost, tokens, seconds.

A bill is a sum: what people pay is the mean, and a few sessions of fifty times the cost decide it. Few
questions show none of them, so that an interval of few questions is too narrow by any method: below
`MIN_QUESTIONS` there is none. tests/coverage_of_means.py measures how often intervals contain the truth if 2%
of the sessions cost fifty times as much in either sample, or in both.

The interval and the p-value are those of the bootstrap-t of the factor between the means (of their
difference, if a mean is 0 or values may be negative), always of the same resamples; beyond what these
resolve, and from `MAX_RESAMPLED` questions on, it is Student's t. `median` and `geomean` are asked for by
name: `cost.median worse by 10%`.

Sources: P. Hall, "The bootstrap and Edgeworth expansion" (1992), section 3.2, for the bootstrap-t. W. J.
Conover, "Practical nonparametric statistics" (1999), section 3.2, for the interval of a median.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings

from spangrade.evaluator.statistics.comparison.by_question import ByQuestion, EachQuestion
from spangrade.evaluator.statistics.comparison.differences import Tested, TooLittle
from spangrade.evaluator.statistics.intervals import (
    check_scipy,
    exchange_p_value,
    student_p_value,
    student_quantile,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_QUESTIONS = 200  # with 150, an interval contained the truth in 86%
MAX_RESAMPLED = 2_000  # questions: beyond, Student's t contains it in 90% and more, and takes no time
MIN_DIFFERENT = 10  # of values that are mostly equal
MIN_QUESTIONS_OF_MEDIAN = 10
_RESAMPLES = 1_999
_AT_ONCE = 64  # resamples in memory
_ROUNDING = 1e-9


def mean_difference(
    first: EachQuestion, second: EachQuestion, lowest: float, *, is_paired: bool
) -> Tested | TooLittle:
    """Return the difference of two means: as a factor, if both are positive and no value may be below 0.

    `first` and `second` have the values of each question, the same ones in both if they are paired; `lowest`
    is the metric's lowest possible value.
    """
    questions = min(len(first), len(second))
    if not questions:
        return TooLittle("no question can be compared")
    before, after = (ByQuestion.of(side).means.tolist() for side in (first, second))
    is_ratio = lowest >= 0 and fmean(before) > 0 and fmean(after) > 0
    estimate = fmean(after) / fmean(before) if is_ratio else fmean(after) - fmean(before)
    differing = sum(a != b for a, b in zip(before, after, strict=True)) if is_paired else questions
    if not differing and questions >= MIN_QUESTIONS:
        same = "all values are equal"
        return Tested(estimate, lambda _: (estimate, estimate), 1.0, questions, same, is_ratio)
    reason = ""
    if questions < MIN_QUESTIONS:
        reason = f"{questions} questions; an interval of the mean needs {MIN_QUESTIONS}"
    elif differing < MIN_DIFFERENT:
        reason = f"{differing} of {questions} questions differ; at least {MIN_DIFFERENT} are needed"
    if reason:
        p_value = _exchange_p(before, after, is_paired=is_paired)
        return TooLittle(reason, MIN_QUESTIONS, estimate, is_ratio, p_value)
    interval_of, p_value = _tested(before, after, is_paired=is_paired, is_ratio=is_ratio)
    method = "bootstrap-t of means" if questions <= MAX_RESAMPLED else "t of means"
    return Tested(estimate, interval_of, p_value, questions, method, is_ratio)


def median_difference(
    first: EachQuestion, second: EachQuestion, lowest: float, *, is_paired: bool
) -> Tested | TooLittle:
    """Return the median of the questions' factors, or of their differences if a value is 0 or may be below.

    The questions must be the same in both samples. Its interval needs no distribution.
    """
    check_scipy("a median")
    from scipy.stats import quantile_test

    if not is_paired or not len(first):
        return TooLittle("a median needs questions that both have")
    means = (ByQuestion.of(side).means.tolist() for side in (first, second))
    pairs = list(zip(*means, strict=True))
    is_ratio = lowest >= 0 and all(a > 0 and b > 0 for a, b in pairs)
    changes = [b / a if is_ratio else b - a for a, b in pairs]
    found = quantile_test(changes, q=float(is_ratio), p=0.5)
    estimate, p_value = median(changes), float(found.pvalue)
    if len(changes) < MIN_QUESTIONS_OF_MEDIAN:
        reason = f"{len(changes)} questions; at least {MIN_QUESTIONS_OF_MEDIAN} are needed"
        return TooLittle(reason, MIN_QUESTIONS_OF_MEDIAN, estimate, is_ratio, p_value)

    def bounds(error: float) -> tuple[float, float]:
        interval: Any = found.confidence_interval(1 - error)
        return float(interval.low), float(interval.high)

    return Tested(estimate, bounds, p_value, len(changes), "order statistics", is_ratio)


def _exchange_p(before: Sequence[float], after: Sequence[float], *, is_paired: bool) -> float:
    """Return the p-value of the test that nothing changed, of too little data for an interval."""
    if is_paired:
        return exchange_p_value([b - a for a, b in zip(before, after, strict=True)])
    if min(len(before), len(after)) < 2 or len({*before, *after}) == 1:
        return 1.0
    check_scipy("this p-value")
    from scipy.stats import ttest_ind  # takes 0.4 s to import

    with catch_warnings(category=RuntimeWarning, action="ignore"):  # of values that are almost equal
        return float(ttest_ind(after, before, equal_var=False).pvalue)


def _tested(
    before: Sequence[float], after: Sequence[float], *, is_paired: bool, is_ratio: bool
) -> tuple[Callable[[float], tuple[float, float]], float]:
    """Return the intervals of a factor, or of a difference, and the p-value that there is none."""
    check_scipy("an interval of a mean")
    import numpy as np

    sides = np.asarray(before), np.asarray(after)
    measure = _log_ratio if is_ratio else _distance
    estimate, error = (float(value) for value in measure(*sides, is_paired))
    fewest = min(map(len, sides))
    ends = np.empty(0)
    if fewest <= MAX_RESAMPLED:
        ends = estimate - _resampled(*sides, estimate, measure, is_paired=is_paired)[::-1] * error
    resolved = 1 / (len(ends) + 1)  # the smallest chance of one side that is not Student's

    def interval_of(alpha: float) -> tuple[float, float]:
        half = student_quantile(fewest - 1, 1 - alpha / 2) * error
        low, high = estimate - half, estimate + half
        if beyond := int(alpha / 2 / resolved + _ROUNDING):
            low, high = ends[beyond - 1], ends[-beyond]
        elif len(ends):
            low, high = min(low, ends[0]), max(high, ends[-1])
        with np.errstate(over="ignore"):
            return (float(np.exp(low)), float(np.exp(high))) if is_ratio else (float(low), float(high))

    distance = abs(estimate) / error if error else math.inf if estimate else 0.0
    p_value = student_p_value(distance, fewest - 1)
    beyond = min((ends <= 0).sum(), (ends >= 0).sum())
    if len(ends):
        p_value = min(2 * (beyond + 1) * resolved, 1.0) if beyond else min(p_value, 2 * resolved)
    return interval_of, float(p_value)


def _resampled(
    before: NDArray[Any],
    after: NDArray[Any],
    estimate: float,
    measure: Callable[..., tuple[Any, Any]],
    *,
    is_paired: bool,
) -> NDArray[Any]:
    """Return by how many standard errors resamples are above the estimate, in order."""
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
    return np.sort(np.concatenate(distances))


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
