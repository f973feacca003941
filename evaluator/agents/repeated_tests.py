"""Tests that ran several times: how often one and how often all of k runs pass, and where runs part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from spangrade.evaluator.statistics.repeats.flaky import Try, flaky
from spangrade.evaluator.statistics.repeats.rates import MIN_QUESTIONS, Tries, rates


def repeat_lines(tests: Mapping[str, Sequence[Try]]) -> Iterator[str]:
    """Yield pass@k and pass^k over the tests with several runs, and where those of flaky ones part, if known.

    A run without a verdict counts as not passed.
    """
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
