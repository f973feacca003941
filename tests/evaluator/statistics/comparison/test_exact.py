"""The exact test of flips against a sum over all outcomes, and how often wrong claims are accepted."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from spangrade.evaluator.statistics.comparison.exact import at_least_p, at_most_p, score


def summed(gained: int, lost: int, questions: int, difference: float) -> float:
    """Return the p-value by the definition: the chances of all outcomes as extreme, one by one."""
    outcomes = [(a, b) for a in range(questions + 1) for b in range(questions + 1 - a)]
    observed = score(gained, lost, questions, difference)
    extreme = [
        (a, b, questions - a - b)
        for a, b in outcomes
        if score(a, b, questions, difference) >= observed - 1e-9
    ]
    shares = np.linspace(max(0.0, -difference), (1 - difference) / 2, 1_000)
    return max(
        sum(
            scipy.stats.multinomial.pmf(
                extreme, questions, [p + difference, p, max(0.0, 1 - 2 * p - difference)]
            )
        )
        for p in shares
    )


@pytest.mark.parametrize("difference", [-0.3, -0.05, 0.0, 0.2])
@pytest.mark.parametrize(("gained", "lost", "questions"), [(0, 0, 2), (0, 5, 6), (3, 1, 9), (2, 2, 15)])
@pytest.mark.short_form("gained", 2)
def test_the_p_value_is_the_sum_over_all_outcomes_as_extreme(
    gained: int, lost: int, questions: int, difference: float
) -> None:
    found = at_least_p(gained, lost, questions, difference)
    assert found == pytest.approx(summed(gained, lost, questions, difference), abs=2e-4)


def test_without_a_margin_the_score_is_that_of_mcnemar() -> None:
    """scipy has no exact unconditional test of pairs; the conditional one is never below half of it here."""
    assert float(score(3, 12, 40, 0.0)) == pytest.approx(-9 / np.sqrt(15))
    unconditional, conditional = at_most_p(3, 12, 40, 0.0), scipy.stats.binomtest(3, 15).pvalue / 2
    assert conditional / 2 < unconditional < conditional


def test_fractions_of_questions_with_several_sessions_are_rounded_against_the_claim() -> None:
    assert at_least_p(2.7, 0.3, 30, -0.1) == at_least_p(2, 1, 30, -0.1)
    assert at_most_p(2.7, 0.3, 30, 0.1) == at_most_p(3, 0, 30, 0.1)
    assert at_least_p(1 - 1e-12, 1e-12, 30, -0.1) == at_least_p(1, 0, 30, -0.1)
