"""Pass rates and their intervals."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade.evaluator.agents.pass_rate import (
    BUDGET_SPENT,
    FAILED,
    NO_KEY,
    PASSED,
    SKIPPED,
    pass_rate,
    wilson_interval,
)

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


@pytest.mark.parametrize(
    ("outcomes", "line"),
    [
        ({PASSED: 8}, "8 of 8 passed, 100% (95% interval 68% to 100%)"),
        ({PASSED: 6, FAILED: 2}, "6 of 8 passed, 75% (95% interval 41% to 93%)"),
        ({PASSED: 2, NO_KEY: 2}, "2 of 4 passed, 50% (95% interval 15% to 100%), 2 not judged (no key)"),
        (
            {FAILED: 1, BUDGET_SPENT: 1, SKIPPED: 2},
            "0 of 4 passed, 0% (95% interval 0% to 95%), 1 not judged (budget spent), 2 skipped",
        ),
    ],
)
def test_a_rate_counts_every_run_and_its_interval_leaves_open_what_has_no_verdict(outcomes, line):
    assert pass_rate(outcomes) == line
