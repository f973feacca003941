"""Facts that are more frequent in one group of sessions than in another, beyond chance.

Each fact is tested by Fisher's exact test, one-sided. The procedure of Benjamini and Hochberg chooses some of
the tested facts, of which at most 5% are expected to be chance. A fact that so few sessions have that its
p-value cannot be small is not tested (Tarone 1990): how many have it says nothing about who has it.

Sources: R. A. Fisher, "Statistical Methods for Research Workers" (1934). Y. Benjamini, Y. Hochberg,
"Controlling the false discovery rate", Journal of the Royal Statistical Society B 57 (1995). R. E. Tarone,
"A modified Bonferroni method for discrete data", Biometrics 46 (1990).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_FALSE_DISCOVERIES = 0.05  # the share of what is chosen that may be chance
_TESTABLE = 0.01  # the p-value that the test of a fact must be able to reach
_NEGLIGIBLE = 1e-12  # of a sum


class Count(NamedTuple):
    """How many sessions of a group have a fact, and how many of those that pass."""

    here: int
    of: int
    passing: int
    of_passing: int

    @property
    def expected(self) -> float:
        """How many of the group would have it if they were like those that pass."""
        return self.of * self.passing / self.of_passing if self.of_passing else 0.0

    @property
    def excess(self) -> float:
        """How many more of the group have it than `expected`."""
        return self.here - self.expected

    @property
    def p(self) -> float:
        """The chance of at least this number in the group if chance alone decides, by Fisher's test."""
        return at_least(self.here, self.of, self.here + self.passing, self.of + self.of_passing)

    @property
    def is_testable(self) -> bool:
        """Whether the test could reach a small p-value, whoever of all sessions has the fact."""
        having, every = self.here + self.passing, self.of + self.of_passing
        return at_least(min(having, self.of), self.of, having, every) <= _TESTABLE


@lru_cache(maxsize=100_000)
def at_least(here: int, of: int, having: int, every: int) -> float:
    """Return the chance that of `having` among `every` sessions at least `here` are in a group of `of`."""
    if here <= of * having / every:
        return 1.0  # not more than expected: no smaller chance is of use
    term = total = math.exp(
        _log_ways(of, here) + _log_ways(every - of, having - here) - _log_ways(every, having)
    )
    for number in range(here, min(of, having)):
        term *= (of - number) * (having - number) / ((number + 1) * (every - of - having + number + 1))
        total += term
        if term < total * _NEGLIGIBLE:
            break
    return min(total, 1.0)


def separated(counts: Sequence[Count]) -> list[int]:
    """Return the places of the counts that are more than chance, the smallest p-value first."""
    tested = sorted((one.p, place) for place, one in enumerate(counts) if one.is_testable)
    most = 0
    for rank, (p, _) in enumerate(tested, 1):
        if p <= _FALSE_DISCOVERIES * rank / len(tested):
            most = rank
    return [place for _, place in tested[:most]]


def _log_ways(of: int, chosen: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)
