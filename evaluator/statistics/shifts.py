"""Whether a stream of sessions has become worse: one detector, and how long a pause is usual.

The detector is Page's CUSUM of a Bernoulli sequence. Each session adds the logarithm of the ratio of two
likelihoods: that the odds of a bad one are `RATIO` times those before, and that they are as before. The sum
never falls below 0; where it left 0 last is the likely time of the change. For a change that is known it has
the shortest delay of all detectors with the same rate of false alarms. The rate before is taken `SLACK` worse
than it was, so that a rate which wanders by some points is not told. Without a change the mean time between
alarms grows with exp(threshold), at least as many sessions as that; that it is about `_PER_ALARM` times that,
with a rate that wanders, is calibrated and checked by tests/alerts_simulated.py, whose table is in
docs/notes/alerts.md.

Sources: E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954). G. Lorden, "Procedures for
reacting to a change in distribution", Annals of Mathematical Statistics 42 (1971), for exp(threshold). G.
Moustakides, "Optimal stopping times for detecting changes in distributions", Annals of Statistics 14 (1986).
M. R. Reynolds, Z. G. Stoumbos, "A CUSUM chart for monitoring a proportion when inspecting continuously",
Journal of Quality Technology 31 (1999).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

RATIO = 2.25  # of the odds of a bad session, after a change and before
SLACK = 0.01  # by which the share of bad sessions may wander
_PER_ALARM = 23
_MANY, _STEEPER = 7.2, 0.8  # with more than 30,000 it is the wandering, not chance, that gives alarms
_LEAST = 5.0  # the lowest threshold: with fewer than 3,000 sessions between false alarms, these are rarer


def threshold(sessions: float) -> float:
    """Return the sum at which a change is told, for one false alarm in so many sessions."""
    height = math.log(max(1.0, sessions) / _PER_ALARM)
    return max(_LEAST, height + _STEEPER * max(0.0, height - _MANY))


def evidence(share: float) -> tuple[float, float]:
    """Return what a bad session adds to the sum, and another one, if this share was bad before."""
    good = -math.log1p(min(share + SLACK, 1.0) * (RATIO - 1))
    return good + math.log(RATIO), good


def recovered(share: float, share_since: float) -> float:
    """Return the share of bad sessions that is as before again, given that before and since a change.

    A fifth of that since the change is enough: to show that nothing at all is bad takes hundreds of sessions.
    """
    return max(share, share_since / 5)


def rise(steps: Iterable[float]) -> tuple[float, int]:
    """Return the largest sum of the last steps, however many, and the place at which it begins."""
    total, since = 0.0, 0
    for place, step in enumerate(steps, 1):
        total += step
        if total <= 0:
            total, since = 0.0, place
    return total, since


def longest_usual_pause(longest_s: float, mean_s: float, chances: float) -> float:
    """Return how long a pause may be, in seconds, given the longest and the mean of those before.

    A longer one is seen once in `chances` times the time before, if sessions arrive by chance alone: of n
    pauses and one more of an exponential distribution, the last is the longest by t means with a chance of
    exp(-t) / (n + 1).
    """
    return longest_s + mean_s * math.log(max(1.0, chances))
