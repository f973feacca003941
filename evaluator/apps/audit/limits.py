"""Limits of cost and time that good sessions keep, and that a session of several times the usual exceeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from spangrade.evaluator.apps.audit.options import LEAST_SESSIONS
from spangrade.evaluator.statistics.intervals import student_quantile
from spangrade.tracer.base.installation import is_installed, to_install

_FAILING = 0.001  # share of good sessions that may exceed a limit; a question may have two of them
_MULTIPLE = 4.0  # of the usual: what a limit is to catch, in more than 90% of such sessions
_CAUGHT = 0.95  # as estimated: a spread that is too small by chance lets a limit be written


class Spread(NamedTuple):
    """By how much sessions of one question differ: the standard deviation of the logarithms.

    It is pooled over questions; `freedom` are its degrees of freedom.
    """

    deviation: float
    freedom: int


def pooled_spread(questions: Iterable[Sequence[float]]) -> Spread:
    """Return the spread within questions, given the values of the sessions of each."""
    squares, freedom = 0.0, 0
    for values in questions:
        if len(values) > 1:
            squares += _squares(values)
            freedom += len(values) - 1
    return Spread(math.sqrt(squares / freedom) if freedom else 0.0, freedom)


def limit_of(values: Sequence[float], spread: Spread, slack: float) -> float | str:
    """Return the limit of a question with these values, of two digits, or the reason why there is none.

    A further session exceeds it with a probability of 0.1% if values are log-normal: it is the bound of
    Student's prediction interval, by the spread that is pooled or, if it is larger, the question's own. It is
    at least `slack` times the geometric mean.

    Source: G. J. Hahn, "Factors for calculating two-sided prediction intervals for samples from a normal
    distribution", Journal of the American Statistical Association 64, 1969.
    """
    number = len(values)
    if number < LEAST_SESSIONS:
        return f"{number} of the {LEAST_SESSIONS} sessions that a limit needs"
    if not is_installed("scipy"):
        return f"it needs scipy: {to_install('stats')}"
    usual = fmean(map(math.log, values))
    own = math.sqrt(_squares(values) / (number - 1))
    error = max(spread.deviation, own) * math.sqrt(1 + 1 / number)
    bound = usual + max(student_quantile(spread.freedom, 1 - _FAILING) * error, math.log(slack))
    limit = rounded_up(math.exp(bound))
    if math.log(limit) > usual + math.log(_MULTIPLE) - student_quantile(spread.freedom, _CAUGHT) * error:
        return f"sessions differ too much: one of {_MULTIPLE:g} times the usual would not be noticed"
    return limit


def _squares(values: Sequence[float]) -> float:
    logarithms = [math.log(value) for value in values]
    mean = fmean(logarithms)
    return sum((one - mean) ** 2 for one in logarithms)


def rounded_up(value: float) -> float:
    """Return a number above 0, rounded up to two digits."""
    digits = 1 - math.floor(math.log10(value))
    rounded = math.ceil(round(value * 10.0**digits, 6)) / 10.0**digits
    return int(rounded) if rounded.is_integer() else round(rounded, digits)
