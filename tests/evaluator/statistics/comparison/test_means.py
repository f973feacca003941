"""Means of costs: what people pay; medians by name; no interval where it would be too narrow."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from spangrade.evaluator.statistics.comparison.differences import Difference, TooLittle
from spangrade.evaluator.statistics.comparison.means import MIN_QUESTIONS, mean_difference, median_difference

Costs = list[tuple[float, ...]]


def costs(questions: int, seed: int, factor: float = 1.0) -> Costs:
    own = np.random.default_rng(0).lognormal(0, 0.5, questions)
    drawn = own * np.random.default_rng(seed).lognormal(0, 0.3, questions) * factor
    return [(float(value),) for value in drawn]


def test_a_few_sessions_of_fifty_times_the_cost_are_in_the_mean_and_not_in_the_median() -> None:
    before, after = costs(300, 1), costs(300, 2)
    for number in range(0, 300, 50):
        after[number] = (after[number][0] * 50,)
    mean = mean_difference(before, after, 0.0, is_paired=True).at()
    middle = median_difference(before, after, 0.0, is_paired=True).at()
    assert isinstance(mean, Difference)
    assert isinstance(middle, Difference)
    assert mean.estimate == pytest.approx(np.mean(after) / np.mean(before))
    assert mean.is_at_most(1.25) is False
    assert (mean.low < mean.estimate < mean.high, mean.high > 2) == (True, True)
    assert middle.is_at_most(1.25)
    assert mean == mean_difference(before, after, 0.0, is_paired=True).at()


@pytest.mark.parametrize("is_paired", [True, False])
def test_a_factor_of_a_third_more_is_found(is_paired: bool) -> None:
    found = mean_difference(costs(400, 1), costs(400, 2, 4 / 3), 0.0, is_paired=is_paired).at()
    assert isinstance(found, Difference)
    assert found.is_ratio
    assert 1.1 < found.low < 4 / 3 < found.high < 1.6
    assert found.p_value < 0.001


def test_below_200_questions_there_is_the_factor_and_the_exact_test_of_all_exchanges() -> None:
    few = mean_difference(costs(8, 1), costs(8, 2, 2.0), 0.0, is_paired=True)
    assert isinstance(few, TooLittle)
    assert (few.reason, few.needed) == ("8 questions; an interval of the mean needs 200", MIN_QUESTIONS)
    assert few.is_ratio
    assert few.p_value == pytest.approx(2 / 2**8)


def test_many_questions_have_students_interval() -> None:
    before, after = costs(2_500, 1), costs(2_500, 2, 1.1)
    found = mean_difference(before, after, -float("inf"), is_paired=True).at()
    test = scipy.stats.ttest_rel([b for (b,) in after], [a for (a,) in before])
    assert isinstance(found, Difference)
    assert found[:4] == pytest.approx(
        (np.mean(after) - np.mean(before), *test.confidence_interval(), test.pvalue)
    )
    assert found.method == "t of means"


def test_equal_costs_have_an_interval_of_nothing_and_few_that_differ_none() -> None:
    same = costs(250, 1)
    assert mean_difference(same, same, 0.0, is_paired=True).at()[:4] == (1.0, 1.0, 1.0, 1.0)
    few = mean_difference(same[:199], same[:199], 0.0, is_paired=True)
    assert few == TooLittle("199 questions; an interval of the mean needs 200", 200, 1.0, True, 1.0)
    nearly = [(value * 2,) if number < 9 else (value,) for number, (value,) in enumerate(same)]
    few = mean_difference(same, nearly, 0.0, is_paired=True)
    assert isinstance(few, TooLittle)
    assert few.reason == "9 of 250 questions differ; at least 10 are needed"


def test_a_median_has_the_interval_of_order_statistics() -> None:
    before, after = costs(40, 1), costs(40, 2)
    found = median_difference(before, after, 0.0, is_paired=True).at()
    ratios = sorted(b / a for (a,), (b,) in zip(before, after, strict=True))
    rank = int(scipy.stats.binom.ppf(0.025, 40, 0.5))
    assert isinstance(found, Difference)
    assert found[1:3] == (pytest.approx(ratios[rank - 1]), pytest.approx(ratios[40 - rank]))
    assert median_difference(before, after, 0.0, is_paired=False) == TooLittle(
        "a median needs questions that both have"
    )
