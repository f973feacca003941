"""How often a test passes, with a confidence interval."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

PASSED, FAILED = "passed", "failed"
NO_KEY = "not judged (no key)"
BUDGET_SPENT = "not judged (budget spent)"
JUDGE_FAILED = "not judged (judge failed)"
SKIPPED = "skipped"

_Z_95 = 1.959964  # the 0.975 quantile of the standard normal distribution


def wilson_interval(passed: int, runs: int) -> tuple[float, float]:
    """Return the bounds, from 0 to 1, of the 95% confidence interval of the pass rate.

    Wilson's score interval (Wilson 1927, "Probable inference, the law of succession, and statistical
    inference"): it stays within 0 and 1, and is not empty for 8 of 8 runs.

    Raises:
        ValueError: there were no runs, or `passed` is not between 0 and `runs`.
    """
    if not 0 <= passed <= runs or not runs:
        raise ValueError(f"{passed} of {runs} runs is not a pass rate")
    rate, z2 = passed / runs, _Z_95**2
    center = rate + z2 / (2 * runs)
    half_width = _Z_95 * sqrt(rate * (1 - rate) / runs + z2 / (4 * runs**2))
    low, high = (center - half_width) / (1 + z2 / runs), (center + half_width) / (1 + z2 / runs)
    return min(rate, max(0.0, low)), max(rate, min(1.0, high))  # rounding gives 3e-18 instead of 0


def pass_rate(outcomes: Mapping[str, int]) -> str:
    """Return how many of all runs of a test passed, with the 95% interval; `outcomes` counts each outcome.

    Runs without a verdict count too, and are named: the interval's lower bound takes them as failed, its
    upper bound as passed.
    """
    runs, passed = sum(outcomes.values()), outcomes.get(PASSED, 0)
    low, _ = wilson_interval(passed, runs)
    _, high = wilson_interval(runs - outcomes.get(FAILED, 0), runs)
    rate = f"{passed} of {runs} passed, {passed / runs:.0%} (95% interval {low:.0%} to {high:.0%})"
    without_verdict = (NO_KEY, BUDGET_SPENT, JUDGE_FAILED, SKIPPED)
    return ", ".join([rate, *(f"{outcomes[one]} {one}" for one in without_verdict if outcomes.get(one))])
