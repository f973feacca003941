"""How well two raters agree who pass or fail the same sessions: rates and Cohen's kappa, with 95% intervals.

The interval of a rate is Wilson's (`intervals.py`). That of kappa is normal, with the standard
error of Fleiss, Cohen and Everitt, of the same table with one session more in each of its four cells: with 30
sessions the interval of the table itself contains the true kappa in as little as 50% of the cases, because
its error is 0 where the raters do not differ; with the added sessions it is 93% or more from 20 sessions on
(tests/coverage_of_agreement.py). The value of kappa is that of the table itself.

Sources: J. Cohen, "A coefficient of agreement for nominal scales",
Educational and Psychological Measurement 20 (1960). J. L. Fleiss, J. Cohen, B. S. Everitt, "Large sample
standard errors of kappa and weighted kappa", Psychological Bulletin 72 (1969), formula 13.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from spangrade.evaluator.statistics.intervals import QUANTILE, wilson_interval


class Confusion(NamedTuple):
    """How many sessions each of two raters passed and failed; the judge's verdict is named first."""

    pass_pass: int
    pass_fail: int
    fail_pass: int
    fail_fail: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Confusion:
        """Return the counts of pairs: whether the judge, and whether people, passed a session."""
        listed = list(pairs)
        pass_pass, pass_fail, fail_pass, fail_fail = (
            listed.count((judge, people)) for judge in (True, False) for people in (True, False)
        )
        return cls(pass_pass, pass_fail, fail_pass, fail_fail)

    @property
    def agreed(self) -> int:
        """How many sessions both passed, or both failed."""
        return self.pass_pass + self.fail_fail


class AgreementRate(NamedTuple):
    """A share of sessions, `number` of `total`, with its 95% interval `low` to `high`."""

    number: int
    total: int
    estimate: float
    low: float
    high: float


class Kappa(NamedTuple):
    """Cohen's kappa, its standard error, and its 95% interval."""

    estimate: float
    standard_error: float
    low: float
    high: float


def rate(number: int, total: int) -> AgreementRate | None:
    """Return a share of sessions with its interval; None without sessions."""
    if not total:
        return None
    return AgreementRate(number, total, number / total, *wilson_interval(number, total))


def cohens_kappa(confusion: Confusion) -> Kappa | None:
    """Return Cohen's kappa of two raters; None if both gave all sessions one and the same verdict."""
    own = _kappa(confusion)
    if own is None:
        return None
    estimate, error = own
    center, wide = _kappa(Confusion(*(count + 1 for count in confusion))) or own
    low = max(min(center - QUANTILE * wide, estimate), -1.0)
    high = min(max(center + QUANTILE * wide, estimate), 1.0)
    return Kappa(estimate, error, low, high)


def _kappa(confusion: Confusion) -> tuple[float, float] | None:
    """Return kappa and its standard error; None if agreement by chance is certain, or without sessions."""
    total = sum(confusion)
    if not total:
        return None
    both, only_first, only_second, neither = (count / total for count in confusion)
    first, second = both + only_first, both + only_second  # what each rater passes
    by_chance = first * second + (1 - first) * (1 - second)
    if math.isclose(by_chance, 1.0):
        return None
    kappa = (both + neither - by_chance) / (1 - by_chance)
    agreeing = both * (1 - (first + second) * (1 - kappa)) ** 2
    agreeing += neither * (1 - (2 - first - second) * (1 - kappa)) ** 2
    differing = only_first * (second + 1 - first) ** 2 + only_second * (first + 1 - second) ** 2
    variance = agreeing + (1 - kappa) ** 2 * differing - (kappa - by_chance * (1 - kappa)) ** 2
    return kappa, math.sqrt(max(variance, 0.0) / total) / (1 - by_chance)
