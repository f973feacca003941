"""An exact test of how much more, or less, often the same questions pass in a second sample.

Of n questions, `gained` pass only in the second sample and `lost` only in the first. The test is
unconditional: its p-value is the highest chance, over all shares of questions that may differ, of data that
speak as much against the hypothesis, ordered by Tango's score. So a claim that is wrong is accepted in at
most 2.5% of the cases, with any number of questions; Tango's score without it errs in up to 7.7% (of 3
questions). tests/false_passes.py measures both.

Sources: T. Tango, "Equivalence test and confidence interval for the difference in proportions for the
paired-sample design", Statistics in Medicine 17 (1998). J. P. Hsueh, J. J. Liu, J. J. Chen, "Unconditional
exact tests for equivalence or noninferiority for paired binary endpoints", Biometrics 57 (2001).

It needs scipy; `compare` says so if it is not installed.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from spangrade.evaluator.statistics.intervals import ERROR

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_EXACT = 300  # questions: 0.03 s a test; beyond, Tango's score errs in at most 2.9% instead of 2.5%
ALPHA = ERROR / 2
_SHARES = 80  # of questions that may differ, at which the chance is computed, and as many beside the highest
_ROUNDING = 1e-9
_NEAR = 0.01  # how far the bound of Tango's score is from the exact one, mostly
_PRECISION = 1e-4  # of a bound
_NEGLIGIBLE = 1e-13  # a chance: 300 of them change no digit of a p-value that is shown


def at_least_p(gained: float, lost: float, questions: int, difference: float) -> float:
    """Return the one-sided p-value of the hypothesis that the true difference is at most `difference`.

    `gained` and `lost` are sums over the questions, from 0 to `questions` together. They may be fractions if
    questions have several sessions: then they are rounded against the claim that there is more.
    """
    more, less = math.floor(gained + _ROUNDING), math.ceil(lost - _ROUNDING)
    if not -1 < difference < 1:
        return float(difference >= 1)
    if questions > MAX_EXACT:
        return _normal_p(score(more, less, questions, difference))
    return _exact_p(more, less, questions, difference)


def at_most_p(gained: float, lost: float, questions: int, difference: float) -> float:
    """Return the one-sided p-value of the hypothesis that the true difference is at least `difference`."""
    return at_least_p(lost, gained, questions, -difference)


def interval(gained: float, lost: float, questions: int, error: float = 2 * ALPHA) -> tuple[float, float]:
    """Return the bounds of the interval of the difference: what neither test rejects at half of the error.

    It has 0 if and only if neither test rejects that.
    """
    return _lowest(gained, lost, questions, error / 2), -_lowest(lost, gained, questions, error / 2)


def score(gained: Any, lost: Any, questions: int, difference: float) -> Any:
    """Return how many standard errors the data are above a difference, by Tango's score: numbers or arrays.

    It is 0 where there is neither a distance nor an error.
    """
    import numpy as np

    linear = (2 * questions - gained + lost) * difference - gained - lost
    constant = -lost * difference * (1 - difference)
    root = np.sqrt(np.maximum(linear * linear - 8 * questions * constant, 0.0))
    share_lost = (root - linear) / (4 * questions)
    variance = questions * (2 * share_lost + difference * (1 - difference))
    distance = gained - lost - questions * difference
    return np.where(variance > _ROUNDING, distance / np.sqrt(np.maximum(variance, _ROUNDING)), 0.0)


def _exact_p(gained: int, lost: int, questions: int, difference: float) -> float:
    """Return the highest chance of a score at least as high, over the shares of questions that may differ."""
    import numpy as np

    gains = np.arange(questions + 1)[:, None]
    losses = np.arange(questions + 1)[None, :]
    observed = float(score(gained, lost, questions, difference))
    is_extreme = score(gains, losses, questions, difference) >= observed - _ROUNDING
    is_extreme &= gains + losses <= questions
    most_lost = is_extreme.sum(axis=1) - 1  # the score falls with every loss: fewer are extreme too
    lowest, highest = max(0.0, -difference), (1 - difference) / 2
    # Closer at the ends, where the chance changes most.
    spaced = (1 - np.cos(np.linspace(0, math.pi, _SHARES))) / 2
    shares = lowest + (highest - lowest) * spaced
    chances = _chances(most_lost, questions, shares, difference)
    best = int(chances.argmax())
    beside = np.linspace(shares[max(best - 1, 0)], shares[min(best + 1, _SHARES - 1)], _SHARES)
    return min(1.0, float(max(chances[best], _chances(most_lost, questions, beside, difference).max())))


def _chances(
    most_lost: NDArray[Any], questions: int, shares: NDArray[Any], difference: float
) -> NDArray[Any]:
    """Return for each share of lost questions the chance of at most `most_lost` losses beside each gain."""
    import numpy as np
    from scipy.special import bdtr, gammaln, xlog1py, xlogy

    gained, lost = np.broadcast_arrays(np.clip(shares + difference, 0.0, 1.0), shares)
    gains = np.flatnonzero(most_lost >= 0)[:, None]
    ways = gammaln(questions + 1) - gammaln(gains + 1) - gammaln(questions - gains + 1)
    chances = np.exp(ways + xlogy(gains, gained) + xlog1py(questions - gains, -gained))
    row, column = np.nonzero(chances > _NEGLIGIBLE)
    of_rest = np.clip(lost[column] / np.maximum(1 - gained[column], _NEGLIGIBLE), 0.0, 1.0)
    at = gains[row, 0]
    chances[chances <= _NEGLIGIBLE] = 0.0
    chances[row, column] *= bdtr(most_lost[at].astype(float), questions - at, of_rest)
    return chances.sum(axis=0)  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def _lowest(gained: float, lost: float, questions: int, alpha: float) -> float:
    """Return the lowest difference that the data do not speak against."""
    found = _root(gained, lost, questions, alpha)
    if at_least_p(gained, lost, questions, 0.0) <= alpha:
        return max(found, _PRECISION)  # the test of 0 decides on which side of it a bound is
    return min(found, 0.0)


def _root(gained: float, lost: float, questions: int, alpha: float) -> float:
    """Return the difference at which the p-value is `alpha`, to within `_PRECISION`."""
    from scipy.optimize import brentq

    def excess(difference: float) -> float:
        return at_least_p(gained, lost, questions, difference) - alpha

    quantile = NormalDist().inv_cdf(1 - alpha)
    estimate = min(max((gained - lost) / questions, -1.0), 1.0)
    low, high = -1.0, estimate
    while high - low > _NEAR:  # the chance itself takes much longer than the score
        middle = (low + high) / 2
        if score(gained, lost, questions, middle) > quantile:
            low = middle
        else:
            high = middle
    low, high = max(low - _NEAR, -1 + _ROUNDING), min(high + _NEAR, estimate, 1 - _ROUNDING)
    while low > -1 + _ROUNDING and excess(low) > 0:
        low = max(low - (high - low), -1 + _ROUNDING)
    if excess(low) > 0:
        return -1.0
    return high if excess(high) < 0 else float(brentq(excess, low, high, xtol=_PRECISION))


def _normal_p(distance: Any) -> float:
    from scipy.special import ndtr

    return float(ndtr(-distance))
