"""How often an interval contains the true difference, by simulation over a fixed grid.

`python tests/coverage_of_intervals.py 1000` prints the lowest and the highest share of each kind of values
and number of questions, and exits with 1 if one is too low or too high: .ci/long runs it. A share near a
bound is measured again, four times as often, because among hundreds of cells some are near it by chance.
`python tests/coverage_of_intervals.py 1000 10 30` takes only these numbers of questions.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy

from spangrade.evaluator.statistics.comparison.differences import (
    Difference,
    TooLittle,
    paired_difference,
    unpaired_difference,
)

LOWEST = 0.93
HIGHEST = 0.975  # of continuous values, from 100 questions on

QUESTIONS = (10, 30, 100, 300, 1000)
RATES = (0.5, 0.8, 0.9, 0.95)
DIFFERENCES = (0.0, 0.1, 0.3)
CLUSTERS = (1, 3)
# How much of a session's outcome its question decides: of a session that would pass or fail alone, none.
CORRELATIONS = (0.0, 0.5)

Array = Any  # of numbers between 0 and 1, one per repetition, question and session


def binary(uniform: Array, rate: float) -> Array:
    """Return 1 or 0."""
    return (uniform < rate).astype(float)


def recall(uniform: Array, rate: float) -> Array:
    """Return how many of four calls were made, as a share."""
    return scipy.stats.binom.ppf(uniform, 4, rate) / 4


def rating(uniform: Array, rate: float) -> Array:
    """Return a continuous share with that mean."""
    return scipy.special.betaincinv(10 * rate, 10 * (1 - rate), uniform)


def cost(uniform: Array, rate: float) -> Array:
    """Return a positive, skewed number; twice the rate is twice the cost."""
    return rate * np.exp(scipy.special.ndtri(uniform))


def rare(uniform: Array, rate: float) -> Array:
    """Return a share that is 1 unless something rare lowers it."""
    missed = (1 - rate) / 5
    return np.where(uniform < missed, np.where(uniform < missed / 2, 0.25, 0.75), 1.0)


KINDS: dict[str, Callable[[Array, float], Array]] = {
    "binary": binary,
    "recall": recall,
    "rating": rating,
    "cost": cost,
    "rare": rare,
}
CONTINUOUS = ("rating", "cost")


class Cell(NamedTuple):
    """One combination of the grid."""

    kind: str
    questions: int
    paired: bool
    cluster: int
    correlation: float
    rate: float
    difference: float

    @property
    def truth(self) -> float:
        """The true difference, for costs the true factor."""
        second = self.rate - self.difference
        if self.kind == "cost":
            return second / self.rate
        if self.kind == "rare":  # the mean of a rate is 1 minus half of a fifth of what misses
            return -self.difference / 5 * 0.5
        return -self.difference

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest possible value."""
        return (0.0, float("inf")) if self.kind == "cost" else (0.0, 1.0)


def grid(questions: tuple[int, ...]) -> Iterator[Cell]:
    """Yield the cells; samples of different questions have no correlation."""
    for kind, number, cluster, rate, difference in product(KINDS, questions, CLUSTERS, RATES, DIFFERENCES):
        for correlation in CORRELATIONS if kind != "binary" else ():  # of these false_passes.py is exact
            yield Cell(kind, number, True, cluster, correlation, rate, difference)
        yield Cell(kind, number, False, cluster, 0.5, rate, difference)


def covered(cell: Cell, repetitions: int, random: np.random.Generator) -> float:
    """Return the share of the repetitions in which the interval contains the true difference."""
    shape = (repetitions, cell.questions, cell.cluster)
    own = random.standard_normal((repetitions, cell.questions, 1))
    other = own if cell.paired else random.standard_normal((repetitions, cell.questions, 1))
    values = []
    for question, rate in ((own, cell.rate), (other, cell.rate - cell.difference)):
        normal = sqrt(cell.correlation) * question + sqrt(1 - cell.correlation) * random.standard_normal(
            shape
        )
        values.append(KINDS[cell.kind](scipy.special.ndtr(normal), rate).tolist())
    found = 0
    for first, second in zip(*values, strict=True):
        difference = _difference(cell, first, second)
        found += (
            isinstance(difference, TooLittle) or difference.low - 1e-9 <= cell.truth <= difference.high + 1e-9
        )
    return found / repetitions


def _difference(cell: Cell, first: list[list[float]], second: list[list[float]]) -> Difference | TooLittle:
    if cell.paired:
        return paired_difference(first, second, cell.bounds).at()
    return unpaired_difference(first, second, cell.bounds).at()


def shares(
    repetitions: int, questions: tuple[int, ...] = QUESTIONS, seed: int = 1
) -> dict[tuple[str, int], list[tuple[float, Cell]]]:
    """Return the share of each cell of the grid, by kind and number of questions."""
    random = np.random.default_rng(seed)
    found: dict[tuple[str, int], list[tuple[float, Cell]]] = defaultdict(list)
    for cell in grid(questions):
        share = covered(cell, repetitions, random)
        if near_bound(share, cell, repetitions):
            share = covered(cell, 4 * repetitions, random)
        found[cell.kind, cell.questions].append((share, cell))
    return found


def highest_allowed(cell: Cell) -> float:
    """Return the highest share that the cell may have."""
    return HIGHEST if cell.kind in CONTINUOUS and cell.questions >= 100 else 1.0


def near_bound(share: float, cell: Cell, repetitions: int) -> bool:
    """Return whether the share is within two standard errors of a bound, or beyond it."""
    margin = error(repetitions) * 2 / 3
    return share < LOWEST + margin or (share > highest_allowed(cell) - margin and highest_allowed(cell) < 1)


def error(repetitions: int) -> float:
    """Return three standard errors of a share of 0.95."""
    return 3 * sqrt(0.95 * 0.05 / repetitions)


def main(repetitions: int, questions: tuple[int, ...]) -> int:
    """Print the lowest and highest share of each kind and number of questions; return the exit code."""
    bad = 0
    for (kind, number), found in shares(repetitions, questions).items():
        lowest, highest = min(found), max(found)
        bad += lowest[0] < LOWEST or highest[0] > highest_allowed(highest[1])
        print(
            f"{kind:7} {number:5} questions: {lowest[0]:.3f} to {highest[0]:.3f}; lowest {lowest[1]}",
            flush=True,
        )
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), tuple(map(int, sys.argv[2:])) or QUESTIONS))
