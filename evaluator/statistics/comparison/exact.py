"""An exact test of how much more, or less, often the same questions pass in a second sample.

Of n questions, `gained` pass only in the second sample and `lost` only in the first. The test is
unconditional: its p-value is the highest chance, over all shares of questions that may differ, of data that
speak as much against the hypothesis, ordered by Tango's score. So a claim that is wrong is accepted in at
most 2.5% of the cases, with any number of questions; Tango's score without it errs in up to 7.7% (of 3
questions). tests/false_passes.py measures both.

Sources: T. Tango, "Equivalence test and confidence interval for the difference in proportions for the
paired-sample design", Statistics in Medicine 17 (1998). J. P. Hsueh, J. J. Liu, J. J. Chen, "Unconditional
exact tests for equivalence or noninferiority for paired binary endpoints", Biometrics 57 (2001).

By `math` alone: a comparison of what passed needs neither scipy nor numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import NormalDist

from spangrade.evaluator.statistics.intervals import ERROR

MAX_EXACT = 300  # questions: 0.03 s a test; beyond, Tango's score errs in at most 2.9% instead of 2.5%
ALPHA = ERROR / 2
_SHARES = 80  # of questions that may differ, at which the chance is computed
_STEPS = 16  # towards the highest chance beside the best of them: it is then right to seven digits
_GOLDEN = (3 - math.sqrt(5)) / 2
_ROUNDING = 1e-9
_NEAR = 0.01  # how far the bound of Tango's score is from the exact one, mostly
_PRECISION = 1e-4  # of a bound
_TINY = 1e-280  # below it a product of chances loses its digits
_LOST_DIGITS = 1e-18
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


def score(gained: float, lost: float, questions: int, difference: float) -> float:
    """Return how many standard errors the data are above a difference, by Tango's score.

    It is 0 where there is neither a distance nor an error.
    """
    linear = (2 * questions - gained + lost) * difference - gained - lost
    constant = -lost * difference * (1 - difference)
    root = math.sqrt(max(linear * linear - 8 * questions * constant, 0.0))
    share_lost = (root - linear) / (4 * questions)
    variance = questions * (2 * share_lost + difference * (1 - difference))
    if variance <= _ROUNDING:
        return 0.0
    return (gained - lost - questions * difference) / math.sqrt(variance)


@lru_cache(maxsize=4096)
def _exact_p(gained: int, lost: int, questions: int, difference: float) -> float:
    """Return the highest chance of a score at least as high, over the shares of questions that may differ."""
    most_lost = _most_lost(score(gained, lost, questions, difference) - _ROUNDING, questions, difference)
    lowest, highest = max(0.0, -difference), (1 - difference) / 2
    # Closer at the ends, where the chance changes most.
    last = _SHARES - 1
    shares = [lowest + (highest - lowest) * (1 - math.cos(math.pi * at / last)) / 2 for at in range(_SHARES)]

    def chance(share: float) -> float:
        return _chance(most_lost, questions, share, difference)

    chances = [chance(share) for share in shares]
    best = chances.index(max(chances))
    beside = _highest(chance, shares[max(best - 1, 0)], shares[min(best + 1, last)])
    return min(1.0, max(chances[best], beside))


def _highest(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the highest value of a function that rises and then falls, by the golden section."""
    left, right = low + _GOLDEN * (high - low), high - _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = high - _GOLDEN * (high - low)
            at_right = function(right)
        else:
            high, right, at_right = right, left, at_left
            left = low + _GOLDEN * (high - low)
            at_left = function(left)
    return max(at_left, at_right)


def _most_lost(least: float, questions: int, difference: float) -> list[int]:
    """Return for each number of gains how many losses leave the score at `least`, -1 if none does."""
    found = []
    losses = -1
    for gains in range(questions + 1):  # the score falls with every loss, and mostly rises with a gain
        losses = min(losses, questions - gains)
        while losses >= 0 and score(gains, losses, questions, difference) < least:
            losses -= 1
        while losses < questions - gains and score(gains, losses + 1, questions, difference) >= least:
            losses += 1
        found.append(losses)
    return found


def _chance(most_lost: Sequence[int], questions: int, share: float, difference: float) -> float:
    """Return the chance of at most `most_lost` losses beside each gain, if this share is lost."""
    gained = min(max(share + difference, 0.0), 1.0)
    of_rest = min(max(share / max(1 - gained, _NEGLIGIBLE), 0.0), 1.0)
    first, weights = _most_likely(questions, gained)
    total = 0.0
    # The chances of at most, and of exactly, `before` losses of the rest.
    before, at_most, edge = -1, 0.0, 0.0
    for gains, weight in enumerate(weights, first):
        losses, rest = most_lost[gains], questions - gains
        if losses < 0:
            continue
        if losses >= rest or not 0 < of_rest < 1:
            before, at_most = -1, float(losses >= rest or of_rest == 0)
        elif before < 0 or losses < before or edge < _TINY:
            at_most, edge = _binomial_sum(losses, rest, of_rest), _binomial(losses, rest, of_rest)
            before = losses
        else:  # one question less, and then the losses that may come on top: nothing is subtracted
            edge *= (rest + 1 - before) / ((rest + 1) * (1 - of_rest))
            at_most += of_rest * edge
            while before < losses:
                edge *= (rest - before) * of_rest / ((before + 1) * (1 - of_rest))
                at_most += edge
                before += 1
        total += weight * at_most
    return total


def _most_likely(number: int, chance: float) -> tuple[int, list[float]]:
    """Return the first number of successes whose chance is not negligible, and the chances from there on."""
    middle = min(int((number + 1) * chance), number)
    above = [_binomial(middle, number, chance)]
    if chance in (0.0, 1.0):
        return middle, above
    odds = chance / (1 - chance)
    for successes in range(middle, number):
        above.append(above[-1] * odds * (number - successes) / (successes + 1))
        if above[-1] <= _NEGLIGIBLE:
            break
    below = [above[0]]
    for successes in range(middle, 0, -1):
        below.append(below[-1] * successes / (odds * (number - successes + 1)))
        if below[-1] <= _NEGLIGIBLE:
            break
    return middle + 1 - len(below), [*below[:0:-1], *above]


def _binomial_sum(most: int, number: int, chance: float) -> float:
    """Return the chance of at most this number of successes."""
    term = total = _binomial(most, number, chance)
    if term < _TINY:
        return float(most > number * chance)
    against = (1 - chance) / chance
    for successes in range(most, 0, -1):
        term *= against * successes / (number - successes + 1)
        total += term
        if term < _LOST_DIGITS * total:
            break
    return total


def _binomial(successes: int, number: int, chance: float) -> float:
    """Return the chance of this number of successes."""
    if chance in (0.0, 1.0):
        return float(successes == number * chance)
    ways = _LOG_FACTORIALS[number] - _LOG_FACTORIALS[successes] - _LOG_FACTORIALS[number - successes]
    return math.exp(ways + successes * math.log(chance) + (number - successes) * math.log1p(-chance))


_LOG_FACTORIALS = [math.lgamma(each + 1) for each in range(MAX_EXACT + 1)]


@lru_cache(maxsize=1024)
def _lowest(gained: float, lost: float, questions: int, alpha: float) -> float:
    """Return the lowest difference that the data do not speak against."""
    found = _root(gained, lost, questions, alpha)
    if at_least_p(gained, lost, questions, 0.0) <= alpha:
        return max(found, _PRECISION)  # the test of 0 decides on which side of it a bound is
    return min(found, 0.0)


def _root(gained: float, lost: float, questions: int, alpha: float) -> float:
    """Return the difference at which the p-value is `alpha`, to within `_PRECISION`."""

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
    return high if excess(high) < 0 else _zero(excess, low, high)


def _zero(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function is 0 whose values at `low` and `high` have two signs, to within `_PRECISION`.

    Source: R. P. Brent, "Algorithms for minimization without derivatives" (1973), chapter 4.
    """
    last, now, other = low, high, low
    at_last, at_now, at_other = function(low), function(high), 0.0
    step_before = step = 0.0
    while True:
        if at_last and at_now and (at_last < 0) != (at_now < 0):
            other, at_other = last, at_last
            step_before = step = now - last
        if abs(at_other) < abs(at_now):
            last, now, other = now, other, now
            at_last, at_now, at_other = at_now, at_other, at_now
        near, half = _PRECISION / 2, (other - now) / 2
        if at_now == 0 or abs(half) < near:
            return now
        tried = math.inf
        if abs(step_before) > near and abs(at_now) < abs(at_last):
            slope = (at_last - at_now) / (last - now)
            if last == other:
                tried = -at_now / slope
            else:  # the parabola through three points, of the inverse function
                of_other = (at_other - at_now) / (other - now)
                between = at_other * of_other - at_last * slope
                tried = -at_now * between / (of_other * slope * (at_other - at_last))
        is_short = 2 * abs(tried) < min(abs(step_before), 3 * abs(half) - near)
        step_before, step = (step, tried) if is_short else (half, half)
        last, at_last = now, at_now
        now += step if abs(step) > near else math.copysign(near, half)
        at_now = function(now)


def _normal_p(distance: float) -> float:
    return math.erfc(distance / math.sqrt(2)) / 2
