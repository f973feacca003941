"""How often the interval of a mean's change contains the truth, with rare sessions of fifty times the cost.

`python tests/coverage_of_means.py 400` prints the share of 400 samples for each number of questions and
each case, and exits with 1 if it is below 90% where `compare` gives an interval: .ci/long runs it.
"""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

import numpy as np

from spangrade.evaluator.statistics.comparison import means
from spangrade.evaluator.statistics.comparison.differences import Difference

QUESTIONS = (10, 30, 100, 150, 200, 300, 1000, 3000)
RARE, TIMES = 0.02, 50.0
CASES = {"in neither": (0, 0), "in both": (1, 1), "in the second": (0, 1), "in the first": (1, 0)}
LOWEST = 0.9


def costs(questions: int, random: np.random.Generator, own: Any, is_rare: int) -> list[tuple[float, ...]]:
    """Return a sample: the question decides most of a session's cost, but for rare ones."""
    values = np.exp(0.5 * own + random.normal(0, 0.3, questions))
    values = np.where(random.random(questions) < RARE * is_rare, TIMES * values, values)
    return [(float(value),) for value in values]


def coverage(questions: int, case: str, repetitions: int, random: np.random.Generator) -> float:
    """Return the share of the samples of which the interval contains the true factor."""
    expected = [1 + RARE * (TIMES - 1) * is_rare for is_rare in CASES[case]]
    truth, found = expected[1] / expected[0], 0
    for _ in range(repetitions):
        own = random.normal(0, 1, questions)
        first, second = (costs(questions, random, own, is_rare) for is_rare in CASES[case])
        change = means.mean_difference(first, second, 0.0, is_paired=True).at()
        found += isinstance(change, Difference) and change.low <= truth <= change.high
    return found / repetitions


def main(repetitions: int) -> int:
    """Print a row for each number of questions; return the exit code."""
    bad = 0
    random = np.random.default_rng(1)
    print(f"{'questions':>9}  " + "  ".join(f"{case:>13}" for case in CASES))
    for number in QUESTIONS:
        with mock.patch.object(means, "MIN_QUESTIONS", min(number, means.MIN_QUESTIONS)):
            shares = [coverage(number, case, repetitions, random) for case in CASES]
        bad += number >= means.MIN_QUESTIONS and min(shares) < LOWEST
        print(f"{number:>9}  " + "  ".join(f"{share:13.3f}" for share in shares), flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
