"""Means with their intervals: scipy's values, too little data, how often the intervals are right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean, variance

import numpy as np
import pytest
import scipy

from spangrade.evaluator.statistics.trends.trend import Mean, Summary, arithmetic

SHARE = (0.0, 1.0)
COST = (0.0, math.inf)
ANY = (-math.inf, math.inf)


def summary(values: Sequence[float], bounds: tuple[float, float] = SHARE) -> Summary:
    """Return what the query of a trend returns of values."""
    return Summary(
        len(values),
        max(Counter(values).values(), default=0),
        all(value in bounds for value in values),
        fmean(values) if values else None,
        variance(values) if len(values) > 1 else None,
    )


def students(values: Sequence[float]) -> tuple[float, float]:
    """Return scipy's interval of a mean."""
    interval = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    return float(interval.low), float(interval.high)


@pytest.mark.parametrize(("passed", "number"), [(0, 1), (3, 7), (19, 20), (180, 200)])
def test_a_share_has_wilsons_interval(passed: int, number: int) -> None:
    expected = scipy.stats.binomtest(passed, number).proportion_ci(0.95, method="wilson")
    found = arithmetic(summary([1.0] * passed + [0.0] * (number - passed)), SHARE)
    assert found == pytest.approx((passed / number, expected.low, expected.high), abs=1e-12)


def test_a_score_on_a_scale_has_students_interval_from_thirty_questions_on() -> None:
    values = [0.3 + 0.02 * (n % 17) for n in range(30)]
    assert arithmetic(summary(values), SHARE) == pytest.approx((fmean(values), *students(values)))


def test_few_scores_on_a_scale_have_wilsons_interval_of_the_same_share() -> None:
    # 4 of 5 stars on average is three quarters of the scale from 1 to 5, as 15 of 20 is
    found = arithmetic(summary([3.0, 5.0] * 10, (1.0, 5.0)), (1.0, 5.0))
    expected = scipy.stats.binomtest(15, 20).proportion_ci(0.95, method="wilson")
    assert found == pytest.approx((4.0, 1 + 4 * expected.low, 1 + 4 * expected.high))


def test_costs_have_students_interval_from_1000_questions_on() -> None:
    costs = [0.01 * (1 + n % 40) for n in range(1_000)]
    assert arithmetic(summary(costs, COST), COST) == pytest.approx((fmean(costs), *students(costs)))
    assert arithmetic(summary(costs[1:], COST), COST) == pytest.approx((fmean(costs[1:]), None, None))


@pytest.mark.parametrize(
    ("found", "mean"),
    [
        (arithmetic(summary([-1.0, 3.0] * 499, ANY), ANY), 1.0),  # below 1,000 questions
        (arithmetic(summary([0.0] * 1_191 + [1.0] * 9, ANY), ANY), 0.0075),  # mostly equal, 9 differ
    ],
)
def test_too_little_data_has_a_mean_and_no_interval(found: Mean, mean: float) -> None:
    assert found == pytest.approx((mean, None, None))


def test_without_values_there_is_no_mean() -> None:
    assert arithmetic(summary([]), SHARE) == arithmetic(summary([]), COST) == (None, None, None)


def test_wilsons_interval_contains_the_true_rate_in_at_least_90_of_100_cases() -> None:
    """Computed from the binomial distribution, without chance."""
    covered = {}
    for number in (10, 20, 30, 100, 300):
        intervals = [arithmetic(summary([1.0] * k + [0.0] * (number - k)), SHARE) for k in range(number + 1)]
        for rate in (0.5, 0.8, 0.9, 0.95):
            covered[number, rate] = sum(
                float(scipy.stats.binom.pmf(k, number, rate))
                for k, (_, low, high) in enumerate(intervals)
                if low is not None and high is not None and low <= rate <= high
            )
    assert min(covered.items(), key=lambda cell: cell[1]) == ((10, 0.95), pytest.approx(0.9139, abs=5e-5))
    assert fmean(covered.values()) >= 0.93


KINDS: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int]], np.ndarray], float]] = {
    "recall": (lambda random, shape: random.binomial(4, 0.9, shape) / 4, 0.9),
    "rating": (lambda random, shape: random.beta(8, 2, shape), 0.8),
    "clusters": (lambda random, shape: random.binomial(3, random.beta(8, 2, shape)) / 3, 0.8),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("questions", [10, 30, 100])
def test_an_interval_contains_the_true_mean_in_93_of_100_cases(kind: str, questions: int) -> None:
    draw, truth = KINDS[kind]
    drawn = draw(np.random.default_rng(1), (1_000, questions)).tolist()
    means = [arithmetic(summary(one), SHARE) for one in drawn]
    contained = [
        low is not None and high is not None and low - 1e-9 <= truth <= high + 1e-9 for _, low, high in means
    ]
    assert fmean(contained) >= 0.93


def test_with_rare_costs_of_fifty_times_an_interval_contains_the_true_mean_in_90_of_100_cases() -> None:
    random = np.random.default_rng(1)
    drawn = np.exp(0.5 * random.standard_normal((1_000, 1_000)))
    drawn[random.random(drawn.shape) < 0.02] *= 50
    truth = math.exp(0.125) * (1 + 0.02 * 49)
    half = scipy.stats.t.ppf(0.975, 999) * drawn.std(axis=1, ddof=1) / math.sqrt(1_000)
    assert 0.9 <= np.mean(np.abs(drawn.mean(axis=1) - truth) <= half) <= 0.95
