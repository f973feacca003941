"""A test whether the mean of values has become larger than a limit, which may be repeated at any time.

The values are 0 or more, and larger is worse: the share of what failed, a cost, seconds. If their mean is at
most the limit, the evidence against that is an e-value: the mean, over twelve bets b from 0.016 to 0.8, of
the products of 1 + b (value / limit - 1). Its mean is at most 1 at any time, so by Ville's inequality it ever
reaches 1 / error in at most that share of such streams, however often one looks. Inverted, it gives a lower
bound of the mean that holds at all times: the lower end of a confidence sequence.

Sources: J. Ville, "Étude critique de la notion de collectif" (1939). I. Waudby-Smith, A. Ramdas, "Estimating
means of bounded random variables by betting", Journal of the Royal Statistical Society B 86 (2024). J. Shin,
A. Ramdas, A. Rinaldo, "E-detectors: a nonparametric framework for sequential change detection", New England
Journal of Statistics in Data Science 2 (2024), for starting one at several times. tests/alerts_simulated.py
simulates it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from spangrade.evaluator.statistics.intervals import wilson_interval

SLOTS = 8  # of a window: a change is looked for from the start of each of them
BEFORE = 7  # windows before the one that is looked at, with which it is compared
CAP = 10  # times the mean before, or the limit: a session counts for at most that, of values without bounds
PER_YEAR = 1 / 3  # alarms of a stream without a change, at most, that one alert may give in a year
_YEAR_S = 365 * 86_400

_BETS = tuple(0.8 * 0.7**number for number in range(12))
_EXACT = 1e-4  # of a bound, as a share of the mean

Values = Mapping[float, int]  # how many sessions have each value


def mean_of(values: Values) -> float:
    """Return the mean of values, one or more."""
    return math.fsum(value * number for value, number in values.items()) / sum(values.values())


def log_evidence(values: Values, limit: float) -> float:
    """Return the logarithm of the e-value against a mean of at most `limit`, which is above 0."""
    shares = [(value / limit - 1, number) for value, number in values.items()]
    logs = [math.fsum(number * math.log1p(bet * share) for share, number in shares) for bet in _BETS]
    highest = max(logs)
    return highest + math.log(math.fsum(math.exp(one - highest) for one in logs) / len(_BETS))


def is_above(values: Values, limit: float, error: float) -> bool:
    """Return whether the mean is shown to be above the limit, with this error over all looks."""
    return mean_of(values) > limit and log_evidence(values, limit) >= -math.log(error)


def lower_bound(values: Values, error: float) -> float:
    """Return the largest limit, to 0.01% of the mean, that the mean is shown to be above; 0 without one."""
    low, high = 0.0, mean_of(values)
    exact = high * _EXACT
    while high - low > exact:
        middle = (low + high) / 2
        if is_above(values, middle, error):
            low = middle
        else:
            high = middle
    return low


class PriorMean(NamedTuple):
    """What was before: the number of the values, their mean and their standard deviation."""

    number: int
    mean: float
    deviation: float


class Shift(NamedTuple):
    """A mean that is above a limit: in the values since the start of a slot, from 0."""

    slot: int
    values: Values


def error_of(window_s: float) -> float:
    """Return the error of a test that starts with each slot of windows of this length."""
    return PER_YEAR * window_s / (SLOTS * _YEAR_S)


def upper_bound(before: PriorMean, error: float, highest: float) -> float:
    """Return the upper bound of a mean, with this error; `highest` is the highest possible value or inf."""
    quantile = NormalDist().inv_cdf(1 - error)
    if math.isfinite(highest):
        share = min(max(before.mean / highest, 0.0), 1.0)
        return (
            highest * wilson_interval(min(share * before.number, before.number), before.number, quantile)[1]
        )
    return before.mean + quantile * before.deviation / math.sqrt(before.number)


def shift(slots: Sequence[Values], limit: float, error: float, least: int) -> Shift | None:
    """Return the values that show most that the mean is above a limit, None if none do.

    These are at least `least` values, all since the start of one of the `slots`.
    """
    since: dict[float, int] = {}
    found: tuple[float, Shift] | None = None
    for slot in range(len(slots) - 1, -1, -1):
        if not slots[slot]:
            continue
        for value, number in slots[slot].items():
            since[value] = since.get(value, 0) + number
        if sum(since.values()) >= least and mean_of(since) > limit:
            evidence = log_evidence(since, limit)
            if evidence >= -math.log(error) and (found is None or evidence > found[0]):
                found = evidence, Shift(slot, dict(since))
    return None if found is None else found[1]


def longest_usual_pause(longest_s: float, mean_s: float, window_s: float) -> float:
    """Return how long a pause may be, in seconds, given those of the windows before.

    It is the longest of them, and as many times their mean as make one that is longer a matter of chance
    `PER_YEAR` times a year, if sessions arrive by chance alone: of n pauses and one more of an exponential
    distribution, the last is the longest by t means with a chance of exp(-t) / (n + 1).
    """
    return longest_s + mean_s * math.log(_YEAR_S / (PER_YEAR * BEFORE * window_s))
