"""pass@k and pass^k: their published formulas, worked examples, and how often their intervals are right."""

from __future__ import annotations

from itertools import combinations
from statistics import fmean, variance

import pytest
import scipy
from coverage_of_repeats import LOWEST, QUESTIONS, shares

from spangrade.evaluator.statistics.repeats.rates import Rate, Tries, pass_at_k, pass_hat_k, rate, rates


@pytest.mark.parametrize("tries", [Tries(5, 0), Tries(5, 2), Tries(6, 5), Tries(4, 4)])
def test_the_chances_are_shares_of_all_choices_of_k_sessions(tries: Tries) -> None:
    outcomes = [True] * tries.passed + [False] * (tries.sessions - tries.passed)
    for k in range(1, tries.sessions + 1):
        choices = list(combinations(outcomes, k))
        assert pass_at_k(tries, k) == pytest.approx(fmean(any(one) for one in choices))
        assert pass_hat_k(tries, k) == pytest.approx(fmean(all(one) for one in choices))


def test_the_rates_of_every_k_are_means_over_the_same_questions() -> None:
    found = rates([Tries(1, 0), Tries(2, 1), Tries(4, 4), Tries(4, 2)])
    assert [(one.k, one.questions) for one in found] == [(1, 2), (2, 2), (3, 2), (4, 2)]
    assert found[1].pass_at_k == (pytest.approx((1 + 5 / 6) / 2), None, None)
    assert found[1].pass_hat_k == (pytest.approx((1 + 1 / 6) / 2), None, None)
    assert found[3].pass_at_k.mean == 1.0
    assert found[3].pass_hat_k.mean == 0.5


def test_all_of_more_sessions_never_pass_more_often() -> None:
    """Questions with three sessions that mostly fail, beside those with four that pass."""
    found = rates([*[Tries(3, 1)] * 9, *[Tries(4, 4)] * 11])
    chances = [one.pass_hat_k.mean for one in found]
    assert chances == sorted(chances, reverse=True)


def test_questions_with_one_session_have_no_rates() -> None:
    assert rates([]) == rates([Tries(1, 1)] * 30) == ()


def test_many_sessions_have_rates_of_a_few_numbers_of_them() -> None:
    assert [one.k for one in rates([Tries(12, 6)] * 2)] == [1, 2, 3, 4, 5, 8, 10, 12]


def test_below_twenty_questions_there_is_no_interval() -> None:
    assert rate([1.0] * 19, 38) == Rate(1.0, None, None)
    assert rate([1.0] * 20, 40).low is not None


def test_questions_that_always_pass_or_never_do_have_agresti_and_coulls_interval_of_the_questions() -> None:
    found = rate([1.0] * 30 + [0.0] * 10, 400)
    t = float(scipy.stats.t.ppf(0.975, 39))
    center = (30 + t**2 / 2) / (40 + t**2)
    half = t * (center * (1 - center) / (40 + t**2)) ** 0.5
    assert found == pytest.approx((0.75, center - half, center + half), abs=2e-5)


def test_questions_that_are_alike_have_the_interval_of_more_observations() -> None:
    values = [0.6, 0.8] * 20
    found = rate(values, 400)
    added = [*values, 0.0, 1.0]
    number = 40 * fmean(added) * (1 - fmean(added)) / variance(added)
    assert 150 < number < 400
    t = float(scipy.stats.t.ppf(0.975, 39))
    center = (0.7 * number + t**2 / 2) / (number + t**2)
    half = t * (center * (1 - center) / (number + t**2)) ** 0.5
    assert found == pytest.approx((0.7, center - half, center + half), abs=2e-5)


@pytest.mark.exhaustive
def test_intervals_contain_the_true_rate() -> None:
    """The grid of .ci/long with few repetitions: too few for one cell, enough for all of a size."""
    found = list(shares(repetitions=5))
    means = {
        (kind, questions): fmean(
            share for cell, name, share in found if name == kind and cell.questions == questions
        )
        for kind in ("pass@k", "pass^k")
        for questions in QUESTIONS
    }
    assert min(means.values()) >= LOWEST
