"""How often a test passes, and how sure that is."""

from __future__ import annotations

from math import sqrt

_Z_95 = 1.959964  # the standard normal distribution's quantile at 0.975


def wilson_interval(passed: int, runs: int) -> tuple[float, float]:
    """Return the bounds, from 0 to 1, that hold the true pass rate with 95% confidence.

    Wilson's score interval (Wilson 1927, "Probable inference, the law of succession, and statistical
    inference"): it stays within 0 and 1, and says something of 8 runs out of 8.

    Raises:
        ValueError: there were no runs, or `passed` is not among them.
    """
    if not 0 <= passed <= runs or not runs:
        raise ValueError(f"{passed} of {runs} runs is no pass rate")
    rate, z2 = passed / runs, _Z_95**2
    middle = rate + z2 / (2 * runs)
    spread = _Z_95 * sqrt(rate * (1 - rate) / runs + z2 / (4 * runs**2))
    low, high = (middle - spread) / (1 + z2 / runs), (middle + spread) / (1 + z2 / runs)
    return min(rate, max(0.0, low)), max(rate, min(1.0, high))  # rounding puts 3e-18 in the place of 0
