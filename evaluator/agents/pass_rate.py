"""How often a test passes, with a confidence interval."""

from __future__ import annotations

from collections.abc import Mapping

from spangrade.evaluator.statistics.intervals import wilson_interval

PASSED, FAILED = "passed", "failed"
NO_KEY = "not judged (no key)"
BUDGET_SPENT = "not judged (budget spent)"
JUDGE_FAILED = "not judged (judge failed)"
SKIPPED = "skipped"


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
