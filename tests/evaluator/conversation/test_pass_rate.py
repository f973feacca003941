"""Pass rates and their intervals."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade.evaluator.conversation.pass_rate import wilson_interval

RUNS = st.integers(1, 10_000).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs)))


@pytest.mark.parametrize(
    ("passed", "runs", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_interval_is_the_one_of_newcombes_table(passed, runs, low, high):
    """Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3."""
    assert wilson_interval(passed, runs) == pytest.approx((low, high), abs=5e-5)


@given(RUNS)
def test_the_bounds_are_the_rates_of_which_the_seen_one_is_196_standard_deviations_away(run):
    passed, runs = run
    for bound in wilson_interval(passed, runs):
        if 0 < bound < 1:
            deviation = sqrt(bound * (1 - bound) / runs)
            assert abs(passed / runs - bound) == pytest.approx(1.959964 * deviation, rel=1e-6, abs=1e-9)


@given(RUNS)
def test_the_interval_holds_the_rate_and_stays_within_0_and_1(run):
    passed, runs = run
    low, high = wilson_interval(passed, runs)
    assert 0 <= low <= passed / runs <= high <= 1


@pytest.mark.parametrize(("passed", "runs"), [(0, 0), (2, 1), (-1, 1)])
def test_what_is_no_pass_rate_is_refused(passed, runs):
    with pytest.raises(ValueError, match=f"{passed} of {runs} runs"):
        wilson_interval(passed, runs)
