"""How often the intervals of pass@k and pass^k contain the truth, by simulation over a fixed grid.

`python tests/coverage_of_repeats.py 2000` prints the lowest, mean and highest share for each number of
questions, and exits with 1 if one is too low by more than chance (three standard errors): .ci/long runs it. A
share near the bound is measured again, four times as often.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from math import sqrt
from statistics import fmean
from typing import NamedTuple

import numpy as np
import scipy

from spangrade.evaluator.statistics.repeats.rates import Rate, Tries, pass_at_k, pass_hat_k, rate

LOWEST = 0.93

QUESTIONS = (20, 50, 200)
SESSIONS = (2, 3, 5, 10)
RATES = (0.2, 0.5, 0.8, 0.9, 0.95)
# How a question's own pass rate varies: not at all, by a beta distribution with these sums of its parameters,
# or so that each question always passes or never does.
SUMS = (float("inf"), 10.0, 2.0, 0.5, 0.0)


class Cell(NamedTuple):
    """One combination of the grid."""

    questions: int
    sessions: int
    k: int
    rate: float
    beta_sum: float

    def truths(self) -> tuple[float, float]:
        """Return the true pass@k and pass^k: 1 - E[(1 - p)^k] and E[p^k]."""
        return 1 - _moment(1 - self.rate, self.beta_sum, self.k), _moment(self.rate, self.beta_sum, self.k)


def _moment(mean: float, beta_sum: float, k: int) -> float:
    """Return the expectation of the k-th power of a question's pass rate."""
    if beta_sum == float("inf"):
        return mean**k
    if beta_sum == 0:
        return mean
    first, second = mean * beta_sum, (1 - mean) * beta_sum
    return float(np.exp(scipy.special.betaln(first + k, second) - scipy.special.betaln(first, second)))


def grid() -> Iterator[Cell]:
    """Yield the cells, each with the smallest, a middle and the largest k."""
    for questions, sessions, mean, beta_sum in product(QUESTIONS, SESSIONS, RATES, SUMS):
        for k in sorted({1, 2, sessions}):
            yield Cell(questions, sessions, k, mean, beta_sum)


def covered(cell: Cell, repetitions: int, random: np.random.Generator) -> tuple[float, float]:
    """Return the shares of the repetitions in which the intervals of pass@k and pass^k contain the truth."""
    shape = (repetitions, cell.questions)
    if cell.beta_sum == float("inf"):
        own = np.full(shape, cell.rate)
    elif cell.beta_sum == 0:
        own = (random.random(shape) < cell.rate).astype(float)
    else:
        own = random.beta(cell.rate * cell.beta_sum, (1 - cell.rate) * cell.beta_sum, shape)
    passed = random.binomial(cell.sessions, own)
    # the interval depends only on how many questions have how many passes
    counts = np.apply_along_axis(np.bincount, 1, passed, minlength=cell.sessions + 1).tolist()
    at, hat = cell.truths()
    both = [_rates(tuple(one), cell.sessions, cell.k) for one in counts]
    return fmean(_contains(one, at) for one, _ in both), fmean(_contains(two, hat) for _, two in both)


@cache
def _rates(counts: tuple[int, ...], sessions: int, k: int) -> tuple[Rate, Rate]:
    tries = [Tries(sessions, passed) for passed, number in enumerate(counts) for _ in range(number)]
    total = sessions * len(tries)
    at, hat = ([chance(one, k) for one in tries] for chance in (pass_at_k, pass_hat_k))
    return rate(at, total), rate(hat, total)


def _contains(interval: Rate, truth: float) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low - 1e-9 <= truth <= interval.high + 1e-9


def shares(repetitions: int, seed: int = 1) -> Iterator[tuple[Cell, str, float]]:
    """Yield the share of each cell of the grid, for pass@k and for pass^k."""
    random = np.random.default_rng(seed)
    near = LOWEST + 2 * sqrt(LOWEST * (1 - LOWEST) / repetitions)
    for cell in grid():
        found = covered(cell, repetitions, random)
        if min(found) < near:
            found = covered(cell, 4 * repetitions, random)
        yield from zip((cell, cell), ("pass@k", "pass^k"), found, strict=True)


def main(repetitions: int) -> int:
    """Print the shares; return the exit code."""
    found = list(shares(repetitions))
    for questions, kind in product(QUESTIONS, ("pass@k", "pass^k")):
        those = [(share, cell) for cell, name, share in found if name == kind and cell.questions == questions]
        (lowest, cell), (highest, _) = min(those), max(those)
        mean = fmean(share for share, _ in those)
        print(
            f"{kind} {questions:3} questions: {lowest:.3f} to {highest:.3f}, mean {mean:.3f}; lowest {cell}"
        )
    noise = 3 * sqrt(LOWEST * (1 - LOWEST) / (4 * repetitions))  # three standard errors
    return any(share < LOWEST - noise for _, _, share in found)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
