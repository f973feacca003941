"""Bars of a distribution as plain SVG. Templates draw them from these shapes.

Everything is an attribute of an element, because the policy of the pages allows no style in them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

WIDTH, HEIGHT = 440, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 8, 10, 22
_PLOT_WIDTH, _PLOT_HEIGHT = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
_FACTORS = (1, 2, 5)


class ChartBar(NamedTuple):
    """One bar: its place, what it counts, and the bounds of its values."""

    x: float
    y: float
    width: float
    height: float
    number: int
    low: float
    high: float


class PlacedTick(NamedTuple):
    """A round number beside an axis, and where it is."""

    at: float
    text: str


class Distribution(NamedTuple):
    """Bars over a range of values; `threshold` is where the gate's line is."""

    bars: tuple[ChartBar, ...]
    ticks: tuple[PlacedTick, ...]
    y_ticks: tuple[PlacedTick, ...]
    threshold: float | None


def distribution(
    counts: Mapping[int, int], low: float, high: float, bars: int, threshold: float | None = None
) -> Distribution:
    """Return the bars of counts by number of the part, of `bars` equal parts from `low` to `high`."""
    most = max(counts.values(), default=0)
    side = round_numbers(0, most, 2, whole=True)
    top = max(most, side[-1], 1)
    width, step = _PLOT_WIDTH / bars, (high - low) / bars

    def place(value: float) -> float:
        return _short(_LEFT + (value - low) / (high - low) * _PLOT_WIDTH)

    shapes = tuple(
        ChartBar(
            x=_short(_LEFT + number * width + 1),
            y=_short(_TOP + _PLOT_HEIGHT - height),
            width=_short(width - 2),
            height=_short(height),
            number=count,
            low=low + number * step,
            high=low + (number + 1) * step,
        )
        for number, count in sorted(counts.items())
        # One session among a million is still to be seen.
        if (height := max(count / top * _PLOT_HEIGHT, 1.5))
    )
    at = None
    if threshold is not None and high > low and low <= threshold <= high:
        at = place(threshold)
    return Distribution(
        shapes,
        tuple(PlacedTick(place(one), f"{one:,.12g}") for one in round_numbers(low, high, 4)),
        tuple(PlacedTick(_short(_TOP + _PLOT_HEIGHT * (1 - one / top)), f"{one:,.12g}") for one in side),
        at,
    )


def round_numbers(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Return the multiples from `low` to `high` of the least 1, 2 or 5 times a power of ten that fits.

    A step fits if the range is at most `most` times as long. Without a range there are none.
    """
    least = high / most - low / most
    if least < 1e-290:
        return [] if low else [0.0]
    power = math.floor(math.log10(least))
    steps = (float(f"{factor}e{power + more}") for more in (0, 1) for factor in _FACTORS)
    step = next((one for one in steps if one >= least), least)
    step = max(step, 1.0) if whole else step
    numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [float(f"{number * step:.12g}") for number in numbers]


def _short(number: float) -> float:
    return round(number, 1)
