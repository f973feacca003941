"""The difference between two samples of a metric, with its p-value and its interval.

Both are of one method: an interval with an error of 5% has no 0 if and only if the p-value is below 0.05, and
likewise for any other error.

A question is a cluster: its sessions are averaged first, so that ten sessions of one question do not pass for
ten questions. The kind of the values chooses the method; tests/coverage_of_intervals.py measures
how often each interval contains the true difference.

| values | of the same questions | of different questions |
|---|---|---|
| 0 or 1, also several of a question | exact (`exact.py`) | Agresti-Caffo |
| with bounds: below 10 questions | the same, on their scale | the same, on their scale |
| with bounds: below 30 questions, or mostly equal | Bonett-Price, on their scale | the same, on their scale |
| with bounds, otherwise | Student's t of the differences | Welch's t |
| without bounds (cost, seconds) | `means.py` | `means.py` |
| their geometric mean, asked for by name | Student's t, of logarithms | Welch's t, of logarithms |
| the same, mostly equal: 10 or more differ | Bonett-Price, on the scale of the largest difference | – |

Values that are mostly equal are rare events: with 50 questions of which 2% differ, the interval of Student's
t contains the true difference in 63% of the cases, the adjusted one in more than 99%.

Sources: D. G. Bonett, R. M. Price, "Adjusted Wald confidence interval for a difference of binomial
proportions based on paired data", Journal of Educational and Behavioral Statistics 37 (2012). A. Agresti,
B. Caffo, "Simple and effective confidence intervals for proportions and differences of proportions result
from adding two successes and two failures", The American Statistician 54 (2000). B. L. Welch, "The
generalization of 'Student's' problem when several different population variances are involved", Biometrika 34
(1947). S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics
6 (1979).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from spangrade.evaluator.statistics.comparison.by_question import ByQuestion, EachQuestion
from spangrade.evaluator.statistics.comparison.columns import columns
from spangrade.evaluator.statistics.comparison.exact import ALPHA, MAX_EXACT, at_least_p, at_most_p, interval
from spangrade.evaluator.statistics.intervals import (
    ERROR,
    check_scipy,
    exchange_p_value,
    student_p_value,
    student_quantile,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_QUESTIONS = 10  # of values without bounds
MIN_QUESTIONS_FOR_T = 30  # for values with bounds: with 10, t contains the true difference in 91% only
MIN_DIFFERENT = 10  # of values without bounds that are mostly equal: with 5, an interval contains it in 92%


class Flips(NamedTuple):
    """How much the questions gained and lost together, as shares of the `span` of the scale."""

    gained: float
    lost: float
    span: float = 1.0

    @property
    def reversed(self) -> Flips:
        """The flips of the samples the other way round."""
        return Flips(self.lost, self.gained, self.span)


class Difference(NamedTuple):
    """How much larger a metric is in the second sample: `estimate`, and the interval `low` to `high`.

    With `is_ratio` these are factors (1 is equal), else differences in the metric's unit. `p_value` is that
    of the two-sided test that there is no difference. `questions` is the number compared, that of the smaller
    sample if the questions are not the same. With `flips` the exact test decides. `least_shown` is the share
    of a difference that the values show at least: less than 1 if a judge errs. `error` is how often such an
    interval lacks the true difference: 0.05 for one of 95%.
    """

    estimate: float
    low: float
    high: float
    p_value: float
    questions: int
    method: str
    is_ratio: bool = False
    flips: Flips | None = None
    least_shown: float = 1.0
    error: float = ERROR

    @property
    def direction(self) -> int:
        """1 if the interval is above no difference, -1 if it is below, else 0."""
        none = 1.0 if self.is_ratio else 0.0
        return (self.low > none) - (self.high < none)

    def is_at_least(self, bound: float) -> bool:
        """Return whether the data show, with an error of 2.5%, that the difference is at least `bound`."""
        if self.flips is None:
            return self.low >= bound
        return _rejects_lower(self.flips, self.questions, self._shown(bound))

    def is_at_most(self, bound: float) -> bool:
        """Return whether the data show, with an error of 2.5%, that the difference is at most `bound`."""
        if self.flips is None:
            return self.high <= bound
        return _rejects_lower(self.flips.reversed, self.questions, self._shown(-bound))

    def is_more_than(self, bound: float) -> bool:
        """Return whether the data show, with an error of 2.5%, that the difference is above `bound`."""
        return self.low > bound if self.flips is None else self.is_at_least(bound)

    def is_less_than(self, bound: float) -> bool:
        """Return whether the data show, with an error of 2.5%, that the difference is below `bound`."""
        return self.high < bound if self.flips is None else self.is_at_most(bound)

    def _shown(self, bound: float) -> float:
        """Return what the values show at least of a loss of this bound."""
        return max(bound, bound * self.least_shown)


def _rejects_lower(flips: Flips, questions: int, bound: float) -> bool:
    return at_least_p(flips.gained, flips.lost, questions, bound / flips.span) <= ALPHA


class Tested(NamedTuple):
    """Two samples tested for a difference: the p-value, and by the same method the interval of any error.

    `interval` returns the bounds for an error; the other fields are those of `Difference`. `span` is how
    large a difference can be.
    """

    estimate: float
    interval: Callable[[float], tuple[float, float]]
    p_value: float
    questions: int
    method: str
    is_ratio: bool = False
    flips: Flips | None = None
    least_shown: float = 1.0
    span: float = math.inf

    def at(self, error: float = ERROR) -> Difference:
        """Return the difference with the interval of this error: of 95% by default.

        If the values show less than all of a difference, the interval is as much wider.
        """
        low, high = self.interval(error)
        low = max(low / self.least_shown if low < 0 else low, -self.span)
        high = min(high / self.least_shown if high > 0 else high, self.span)
        same = self.p_value, self.questions, self.method, self.is_ratio, self.flips, self.least_shown
        return Difference(self.estimate, low, high, *same, error)


class TooLittle(NamedTuple):
    """Why the difference of two samples has no interval, and what was observed.

    `needed` is the number of questions that it takes, None if that is not known. `estimate` is the observed
    difference, with `is_ratio` a factor; `p_value` that of the exact test that nothing changed, None of no
    question.
    """

    reason: str
    needed: int | None = None
    estimate: float | None = None
    is_ratio: bool = False
    p_value: float | None = None

    @property
    def direction(self) -> int:
        """1 if what was observed is above no difference, -1 if it is below, else 0."""
        none = 1.0 if self.is_ratio else 0.0
        return 0 if self.estimate is None else (self.estimate > none) - (self.estimate < none)

    def at(self, error: float = ERROR) -> TooLittle:  # noqa: ARG002 (as of what was tested)
        """Return the same: there is no interval of any error."""
        return self


class NeedsScipy(TooLittle):
    """What has no interval and no p-value because scipy, which has its test, is not installed."""


class _Scale(NamedTuple):
    """How values are compared: divided by `span`, as logarithms, with questions added (`is_adjusted`)."""

    span: float = 1.0
    is_log: bool = False
    is_adjusted: bool = False

    def means(self, side: ByQuestion) -> NDArray[Any]:
        """Return the mean of the values of each question on the scale."""
        if self.is_log:
            check_scipy("an interval of a factor")
            side = side.mapped(columns().log)
        return side.means / self.span


def paired_difference(
    first: EachQuestion, second: EachQuestion, bounds: tuple[float, float]
) -> Tested | TooLittle:
    """Return the difference between two samples of the same questions, or why there is too little data.

    Without bounds it is that of the geometric means, as a factor. `first` and `second` have the values of
    each question, `bounds` the metric's lowest and highest possible value. Raises ScipyMissingError if it
    takes scipy and that is not installed: shares, and what has bounds and few questions, do not.
    """
    np = columns()
    sides = ByQuestion.of(first), ByQuestion.of(second)
    questions = len(sides[0])
    if not questions:
        return TooLittle("no question can be compared")
    before, after = (side.means for side in sides)
    different = int((before != after).sum())
    values = np.concatenate([side.values for side in sides])
    if _is_bounded(bounds) and (questions < MIN_QUESTIONS or _is_binary(values, bounds)):
        return _exact(before, after, bounds)
    scale = _scale(values, questions, bounds, rare=different < questions / 2)
    if isinstance(scale, TooLittle):
        return _observed(scale, sides, bounds)
    if scale.is_adjusted and math.isinf(bounds[1] - bounds[0]):
        if 0 < different < MIN_DIFFERENT:
            few = TooLittle(
                f"{different} of {questions} questions differ; at least {MIN_DIFFERENT} are needed"
            )
            return _observed(few, sides, bounds)
        largest = float(abs(_distances(scale, sides)).max())
        scale = scale._replace(span=largest or 1.0)
    differences = _distances(scale, sides)
    estimate = _mean(differences)
    if not scale.is_adjusted:
        error = math.sqrt(_variance(differences) / questions)
        return _student(estimate, error, questions - 1, scale, questions, "paired t")
    adjusted = np.append(differences, [1.0, -1.0])  # each sample wins one of the added questions
    center = _mean(adjusted)
    error = math.sqrt((_mean(adjusted**2) - center**2) / len(adjusted))
    return _normal(estimate, center, error, scale, questions, "Bonett-Price")


def unpaired_difference(
    first: EachQuestion, second: EachQuestion, bounds: tuple[float, float]
) -> Tested | TooLittle:
    """Return the difference between two samples of different questions, or why there is too little data.

    `first` and `second` have the values of each question; `bounds` are those of `paired_difference`. Raises
    ScipyMissingError as that does.
    """
    np = columns()
    sides = ByQuestion.of(first), ByQuestion.of(second)
    questions = min(map(len, sides))
    if not questions:
        return TooLittle("no session has a value in both")
    values = np.concatenate([side.values for side in sides])
    scale = _scale(values, questions, bounds, rare=_mostly_one(values))
    if isinstance(scale, TooLittle):
        return scale
    if scale.is_adjusted and math.isinf(bounds[1] - bounds[0]):
        return TooLittle("most of the values are equal")
    means = [scale.means(side) for side in sides]
    estimate = _mean(means[1]) - _mean(means[0])
    if not scale.is_adjusted:
        errors = [_variance(sample) / len(sample) for sample in means]
        weights = sum(error**2 / (len(sample) - 1) for error, sample in zip(errors, means, strict=True))
        freedom = sum(errors) ** 2 / weights if weights else questions - 1
        return _student(estimate, math.sqrt(sum(errors)), freedom, scale, questions, "Welch's t")
    lowest = bounds[0] / scale.span
    more = [lowest + 1.0, lowest]  # of two more questions, each sample meets one
    adjusted = [np.append(sample, more) for sample in means]
    center = _mean(adjusted[1]) - _mean(adjusted[0])
    error = math.sqrt(sum(_mean_square(sample) / len(sample) for sample in adjusted))
    return _normal(estimate, center, error, scale, questions, "Agresti-Caffo")


def holm(p_values: Sequence[float]) -> list[tuple[float, float]]:
    """Return p-values corrected for their number by Holm's method, in the same order, each with its error.

    The error is that of the step at which it is tested: 5% divided by the number of p-values left. What
    follows the first that is not below it has the error of that step.
    """
    corrected = [(0.0, 0.0)] * len(p_values)
    largest, left = 0.0, len(p_values)
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        left = len(p_values) - rank if largest <= ERROR else left
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest, ERROR / left
    return corrected


def _is_bounded(bounds: tuple[float, float]) -> bool:
    return math.isfinite(bounds[0]) and math.isfinite(bounds[1])


def _exact(before: NDArray[Any], after: NDArray[Any], bounds: tuple[float, float]) -> Tested:
    """Return the difference of values with bounds by the exact test of flips, given each question's means."""
    span = bounds[1] - bounds[0]
    questions = len(before)
    differences = (after - before) / span
    gained = math.fsum(differences[differences > 0].tolist())
    lost = -math.fsum(differences[differences < 0].tolist())
    sides = [test(gained, lost, questions, 0.0) for test in (at_least_p, at_most_p)]

    def bounds_of(error: float) -> tuple[float, float]:
        low, high = interval(gained, lost, questions, error)
        return low * span, high * span

    return Tested(
        _mean(differences) * span,
        bounds_of,
        min(1.0, 2 * min(sides)),
        questions,
        "exact" if questions <= MAX_EXACT else "Tango's score",
        flips=Flips(gained, lost, span),
    )


def _observed(why: TooLittle, sides: tuple[ByQuestion, ByQuestion], bounds: tuple[float, float]) -> TooLittle:
    """Return why there is no interval with the observed difference, and the exact test that nothing changed.

    The test is that of all ways to exchange the two samples of a question: without a change, each is as
    likely.
    """
    scale = _Scale(is_log=bounds[0] >= 0 and all((side.values > 0).all() for side in sides))
    differences = _distances(scale, sides)
    estimate = _mean(differences)
    p_value = exchange_p_value(differences.tolist())
    return why._replace(
        estimate=math.exp(estimate) if scale.is_log else estimate, is_ratio=scale.is_log, p_value=p_value
    )


def _scale(
    values: NDArray[Any], questions: int, bounds: tuple[float, float], *, rare: bool
) -> _Scale | TooLittle:
    """Return how to compare values, or that there are too few questions; `rare` if few values differ."""
    low, high = bounds
    if _is_bounded(bounds):
        is_adjusted = rare or questions < MIN_QUESTIONS_FOR_T or _is_binary(values, bounds)
        return _Scale(high - low if is_adjusted else 1.0, is_adjusted=is_adjusted)
    if questions < MIN_QUESTIONS:
        return TooLittle(f"{questions} questions; at least {MIN_QUESTIONS} are needed", MIN_QUESTIONS)
    if low >= 0 and (values > 0).all():
        return _Scale(is_log=True, is_adjusted=rare)
    return TooLittle("a value is 0 or less: there is no geometric mean")


def _is_binary(values: NDArray[Any], bounds: tuple[float, float]) -> bool:
    return bool(((values == bounds[0]) | (values == bounds[1])).all())


def _mostly_one(values: NDArray[Any]) -> bool:
    """Return whether more than half of the values are the same."""
    return Counter(values.tolist()).most_common(1)[0][1] > len(values) / 2


def _distances(scale: _Scale, sides: tuple[ByQuestion, ByQuestion]) -> NDArray[Any]:
    """Return how much larger each question is in the second sample, on a scale."""
    differences: NDArray[Any] = scale.means(sides[1]) - scale.means(sides[0])
    return differences


def _mean(values: NDArray[Any]) -> float:
    return fmean(values.tolist())  # without an error of rounding, which a bound may hang on


def _variance(values: NDArray[Any]) -> float:
    """Return the variance of a sample."""
    return _mean_square(values) * len(values) / (len(values) - 1)


def _mean_square(values: NDArray[Any]) -> float:
    return _mean((values - _mean(values)) ** 2)


def _normal(
    estimate: float, center: float, error: float, scale: _Scale, questions: int, method: str
) -> Tested:
    def interval_of(alpha: float) -> tuple[float, float]:
        half = NormalDist().inv_cdf(1 - alpha / 2) * error
        return max(center - half, -1.0), min(center + half, 1.0)

    p_value = 2 * NormalDist().cdf(-abs(center) / error)
    return _tested(estimate, interval_of, p_value, scale, questions, method)


def _student(
    estimate: float, error: float, freedom: float, scale: _Scale, questions: int, method: str
) -> Tested:
    def interval_of(alpha: float) -> tuple[float, float]:
        half = student_quantile(freedom, 1 - alpha / 2) * error
        return estimate - half, estimate + half

    distance = abs(estimate) / error if error else math.inf if estimate else 0.0
    return _tested(estimate, interval_of, student_p_value(distance, freedom), scale, questions, method)


def _tested(
    estimate: float,
    interval_of: Callable[[float], tuple[float, float]],
    p_value: float,
    scale: _Scale,
    questions: int,
    method: str,
) -> Tested:
    """Return what was tested given its estimate and intervals on the scale of the comparison."""

    def shown(value: float) -> float:
        return math.exp(value * scale.span) if scale.is_log else value * scale.span

    def bounds(error: float) -> tuple[float, float]:
        low, high = interval_of(error)
        return shown(low), shown(high)

    method = f"{method} of logarithms" if scale.is_log else method
    return Tested(shown(estimate), bounds, p_value, questions, method, scale.is_log)
