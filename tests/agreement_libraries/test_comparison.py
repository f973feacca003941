"""The intervals and p-values of a comparison against those of libraries: evalstats, scipy and statsmodels."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("evalstats", reason="needs the group `agreement`")
import evalstats
import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep

from spangrade.evaluator.statistics.comparison.differences import (
    Difference,
    holm,
    paired_difference,
    unpaired_difference,
)

SHARE = (0.0, 1.0)
POSITIVE = (0.0, math.inf)
NUMBERS = (10, 50, 400)


def own(first: np.ndarray, second: np.ndarray, bounds: tuple[float, float] = SHARE) -> Difference:
    """Return the paired difference of two arrays of questions and sessions."""
    difference = paired_difference(first.tolist(), second.tolist(), bounds).at()
    assert isinstance(difference, Difference)
    return difference


@pytest.mark.parametrize("questions", [30, 400])
def test_a_continuous_metric_has_the_interval_of_evalstats_and_the_p_value_of_scipy(questions: int) -> None:
    random = np.random.default_rng(questions)
    first, second = random.beta(8, 2, (2, questions, 1))
    theirs = evalstats.pairwise_differences(
        np.stack([second[:, 0], first[:, 0]]), 0, 1, method="t_interval", rng=np.random.default_rng(1)
    )
    difference = own(first, second)
    assert difference.method == "paired t"
    assert difference[:3] == pytest.approx((theirs.point_diff, theirs.ci_low, theirs.ci_high))
    test = stats.ttest_rel(second[:, 0], first[:, 0])
    assert difference.p_value == pytest.approx(test.pvalue)
    assert difference[1:3] == pytest.approx(tuple(test.confidence_interval()))


@pytest.mark.parametrize("questions", NUMBERS)
def test_costs_have_the_interval_of_scipy_for_logarithms(questions: int) -> None:
    random = np.random.default_rng(questions)
    first, second = random.lognormal(size=(2, questions, 1))
    test = stats.ttest_rel(np.log(second[:, 0]), np.log(first[:, 0]))
    difference = own(first, second, POSITIVE)
    assert difference.is_ratio
    assert difference[1:4] == pytest.approx((*np.exp(test.confidence_interval()), test.pvalue))


@pytest.mark.parametrize(
    ("first", "second"), [((7, 10), (9, 10)), ((80, 100), (30, 40)), ((12, 12), (50, 50))]
)
def test_binary_samples_of_different_questions_have_the_interval_of_statsmodels(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    samples = [[(1.0,)] * passed + [(0.0,)] * (total - passed) for passed, total in (first, second)]
    difference = unpaired_difference(*samples, SHARE).at()
    assert isinstance(difference, Difference)
    theirs = confint_proportions_2indep(*second, *first, method="agresti-caffo", compare="diff")
    assert difference[1:3] == pytest.approx(theirs)


@pytest.mark.parametrize("sizes", [(30, 400), (50, 50)])
def test_other_samples_of_different_questions_have_the_interval_of_scipy(sizes: tuple[int, int]) -> None:
    random = np.random.default_rng(sizes[0])
    first, second = random.beta(8, 2, sizes[0]), random.beta(5, 4, sizes[1])
    difference = unpaired_difference([(v,) for v in first], [(v,) for v in second], SHARE).at()
    test = stats.ttest_ind(second, first, equal_var=False)
    assert isinstance(difference, Difference)
    assert difference[1:4] == pytest.approx((*test.confidence_interval(), test.pvalue))


def test_corrected_p_values_are_those_of_statsmodels() -> None:
    random = np.random.default_rng(1)
    for number in (1, 2, 15, 100):
        p_values = random.beta(0.3, 1, number)
        assert [p for p, _ in holm(p_values.tolist())] == pytest.approx(
            multipletests(p_values, method="holm")[1]
        )
