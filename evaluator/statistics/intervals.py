"""The 95% intervals of a rate, of the difference of two rates, and of a mean.

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
American Statistical Association 22 (1927). Student, "The probable error of a mean", Biometrika 6 (1908).
A. Agresti, B. Caffo, "Simple and effective confidence intervals for proportions and differences of
proportions result from adding two successes and two failures", The American Statistician 54 (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.installation import is_installed, to_install

ERROR = 0.05
CONFIDENCE = 1 - ERROR
QUANTILE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class ScipyMissingError(InputError):
    """What is asked for needs scipy, which is not installed."""


def check_scipy(what: str) -> None:
    """Raise ScipyMissingError if scipy, which `what` needs, is not installed."""
    if not is_installed("scipy"):
        raise ScipyMissingError(f"{what} needs scipy: {to_install('stats')}")


def wilson_interval(passed: float, runs: float, quantile: float = QUANTILE) -> tuple[float, float]:
    """Return the bounds, from 0 to 1, of the confidence interval of the pass rate: of 95% by default.

    Wilson's score interval stays within 0 and 1, and is not empty for 8 of 8 runs. `passed` need not be a
    whole number: for the mean of values from 0 to 1 the interval is at least as wide as it should be.
    `quantile` is how many standard errors a normal interval has on each side.

    Raises:
        ValueError: there were no runs, or `passed` is not between 0 and `runs`.
    """
    if not 0 <= passed <= runs or not runs:
        raise ValueError(f"{passed} of {runs} runs is not a pass rate")
    rate, z2 = passed / runs, quantile**2
    center = rate + z2 / (2 * runs)
    half_width = quantile * sqrt(rate * (1 - rate) / runs + z2 / (4 * runs**2))
    low, high = (center - half_width) / (1 + z2 / runs), (center + half_width) / (1 + z2 / runs)
    return min(rate, max(0.0, low)), max(rate, min(1.0, high))  # rounding gives 3e-18 instead of 0


def rates_interval(first: tuple[int, int], second: tuple[int, int]) -> tuple[float, float]:
    """Return the bounds, from -1 to 1, of the 95% interval of how much larger the second of two rates is.

    Each is the number that passed, and of how many; it is Agresti's and Caffo's interval.
    """
    rates = [((passed + 1) / (number + 2), number + 2) for passed, number in (first, second)]
    half = QUANTILE * sqrt(sum(rate * (1 - rate) / number for rate, number in rates))
    center = rates[1][0] - rates[0][0]
    return max(center - half, -1.0), min(center + half, 1.0)


def student_interval(mean: float, variance: float, number: int) -> tuple[float, float]:
    """Return the bounds of the 95% confidence interval of a mean, given that of `number` values, two or more.

    `variance` is that of the sample. Raises InputError if scipy is not installed.
    """
    half = student_quantile(number - 1) * sqrt(variance / number)
    return mean - half, mean + half


def student_quantile(freedom: float, below: float = (1 + CONFIDENCE) / 2) -> float:
    """Return the value below which this share of Student's t is.

    By default it is how many standard errors a 95% confidence interval has on each side. `freedom` are the
    degrees of freedom. Raises InputError if scipy is not installed.
    """
    check_scipy("this interval")
    from scipy.special import stdtrit

    return float(stdtrit(freedom, below))


def student_p_value(distance: float, freedom: float) -> float:
    """Return the two-sided p-value, from 0 to 1, of a number of standard errors, 0 or more, by Student's t.

    `freedom` are the degrees of freedom. Raises InputError if scipy is not installed.
    """
    check_scipy("this p-value")
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -distance))


def exchange_p_value(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of the test that differences are as likely to have either sign.

    It is exact up to 13 differences that are not 0, and beyond of 9,999 ways to choose the signs, always the
    same. Source: R. A. Fisher, "The design of experiments" (1935), section 21. Raises InputError if scipy is
    not installed.
    """
    differences = [each for each in differences if each]
    if len(differences) < 2:
        return 1.0
    check_scipy("this p-value")
    import numpy as np
    from scipy.stats import permutation_test

    found = permutation_test(
        (np.asarray(differences), np.zeros(len(differences))),
        lambda first, second, axis: np.mean(first - second, axis=axis),
        permutation_type="samples",
        rng=np.random.default_rng(0),
    )
    return float(found.pvalue)


def deviation_factors(number: int) -> tuple[float, float]:
    """Return by which factors the true standard deviation may be below and above that of `number` values.

    The bounds of its 95% confidence interval, of normal values, whose variance is distributed by chi-squared.
    Raises InputError if scipy is not installed.
    """
    check_scipy("this interval")
    from scipy.special import chdtri

    alpha, freedom = (1 - CONFIDENCE) / 2, max(number - 1, 1)
    return sqrt(freedom / chdtri(freedom, alpha)), sqrt(freedom / chdtri(freedom, 1 - alpha))
