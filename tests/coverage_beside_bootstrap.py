"""How often a 95% interval contains the true difference of pass rates, beside a percentile bootstrap.

`python tests/coverage_beside_bootstrap.py` prints the table of docs/comparing.md. The bootstrap draws pairs
with replacement, 10,000 times, and takes the percentiles of the mean difference, as MLflow 3.18 does in
`mlflow.genai.compare_evaluations`. Only these draws are random: each number of broken and fixed questions
counts by its chance.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np

from spangrade.evaluator.statistics.comparison.differences import TooLittle, paired_difference

RESAMPLES = 10_000
QUESTIONS = (10, 20, 50, 100)
CHANGES = ((0.05, 0.0), (0.05, 0.05), (0.2, 0.05))  # the chance that a question breaks, and that it is fixed

Interval = tuple[float, float]


def bootstrap(broken: int, fixed: int, questions: int) -> Interval:
    """Return the percentile interval of a mean difference, by how many questions regressed or were fixed."""
    random = np.random.default_rng(1)
    chances = np.array([broken, fixed, questions - broken - fixed]) / questions
    drawn = random.multinomial(questions, chances, size=RESAMPLES)
    low, high = np.quantile((drawn[:, 1] - drawn[:, 0]) / questions, [0.025, 0.975])
    return float(low), float(high)


def compared(broken: int, fixed: int, questions: int) -> Interval:
    """Return the interval of `spangrade compare`; from -1 to 1 where it states none."""
    same = [[1.0]] * (questions - broken - fixed)
    first = [[1.0]] * broken + [[0.0]] * fixed + same
    second = [[0.0]] * broken + [[1.0]] * fixed + same
    difference = paired_difference(first, second, (0.0, 1.0)).at()
    return (-1.0, 1.0) if isinstance(difference, TooLittle) else (difference.low, difference.high)


def coverage(
    interval: Callable[[int, int, int], Interval], questions: int, breaks: float, is_fixed: float
) -> float:
    """Return the chance that an interval contains the true difference."""
    truth, share = is_fixed - breaks, 0.0
    for broken in range(questions + 1):
        for fixed in range(questions - broken + 1):
            chance = comb(questions, broken) * comb(questions - broken, fixed)
            weight = (
                chance
                * breaks**broken
                * is_fixed**fixed
                * (1 - breaks - is_fixed) ** (questions - broken - fixed)
            )
            if weight > 1e-7:
                low, high = interval(broken, fixed, questions)
                share += weight * (low - 1e-9 <= truth <= high + 1e-9)
    return share


def row(questions: int, breaks: float, is_fixed: float) -> str:
    """Return a row of the table in docs/comparing.md."""
    shares = (coverage(interval, questions, breaks, is_fixed) for interval in (compared, bootstrap))
    own, drawn = (f"{share * 100:.1f}%" for share in shares)
    return f"| {breaks:.0%} break, {is_fixed:.0%} are fixed | {questions} | {own} | {drawn} |"


if __name__ == "__main__":
    for chances in CHANGES:
        for number in QUESTIONS:
            print(row(number, *chances), flush=True)
