"""The results of tests that ran several times, in lines."""

from __future__ import annotations

from spangrade.evaluator.agents.pass_rate import repeat_lines
from spangrade.evaluator.statistics.repeats.rates import Try


def run(*, passed: bool, calls: tuple[str, ...] | None = ()) -> Try:
    names = None if calls is None else tuple(call.partition(" ")[0] for call in calls)
    return Try(passed, "", names, calls)


def test_tests_that_ran_once_have_no_lines() -> None:
    assert list(repeat_lines({"one": [run(passed=True)], "two": [run(passed=False)]})) == []


def test_a_flaky_test_names_the_call_whose_arguments_differ() -> None:
    tests = {
        "one": [run(passed=True, calls=('find {"a":1}',)), run(passed=False, calls=('find {"a":2}',))],
        "two": [run(passed=True, calls=None), run(passed=False, calls=None)],
        "three": [run(passed=True)],
    }
    assert list(repeat_lines(tests)) == [
        "pass@k over 2 tests: 1: 50.0%, 2: 100.0%; an interval needs 20 tests",
        "pass^k over 2 tests: 1: 50.0%, 2: 0.0%; an interval needs 20 tests",
        'one is flaky: call 1: find {"a":1} (1 of 1 passed), find {"a":2} (0 of 1 passed)',
    ]


def test_twenty_tests_have_intervals() -> None:
    tests = {f"test {n}": [run(passed=True), run(passed=n > 1)] for n in range(20)}
    at, hat, *flaky = repeat_lines(tests)
    assert at.startswith("pass@k over 20 tests: 1: 95.0% (")
    assert hat.endswith("%)")
    assert flaky == []  # none of them made calls
