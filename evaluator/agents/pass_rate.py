"""How often a test passes, how often all of k runs of it pass, and where these part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spangrade.evaluator.statistics.intervals import wilson_interval

if TYPE_CHECKING:
    from spangrade.evaluator.statistics.repeats.rates import Try

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


def repeat_lines(tests: Mapping[str, Sequence[Try]]) -> Iterator[str]:
    """Yield pass@k and pass^k over the tests with several runs, and where those of flaky ones part, if known.

    A run without a verdict counts as not passed.
    """
    from spangrade.evaluator.statistics.repeats.rates import MIN_QUESTIONS, Tries, flaky, rates

    repeated = {test: tries for test, tries in tests.items() if len(tries) > 1}
    found = rates(Tries(len(tries), sum(one.passed for one in tries)) for tries in repeated.values())
    if not found:
        return
    number = f"{len(repeated)} test{'' if len(repeated) == 1 else 's'}"
    note = "" if len(repeated) >= MIN_QUESTIONS else f"; an interval needs {MIN_QUESTIONS} tests"
    for name in ("pass@k", "pass^k"):
        each = ((one.k, one.pass_at_k if name == "pass@k" else one.pass_hat_k) for one in found)
        yield f"{name} over {number}: {', '.join(f'{k}: {rate.text}' for k, rate in each)}{note}"
    for test, tries in repeated.items():
        parted = flaky(test, tries)
        if parted is not None and parted.where:
            yield f"{test} is flaky: {parted.where}"
