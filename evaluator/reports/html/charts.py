"""Charts as plain SVG: bars of a distribution, lines over time. Templates draw them from these shapes.

Everything is an attribute of an element, because the policy of the pages allows no style in them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from spangrade.evaluator.reports.html.axes import Axis, AxisLabel, ticks_around, ticks_within

WIDTH, HEIGHT = 440, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 8, 10, 22
_PLOT_WIDTH, _PLOT_HEIGHT = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
_EDGE = 24  # within it a text below ends at the picture's end
INTERVAL_WIDTH = 200
COLUMNS_UNTIL = 2  # slots
FEW = 10  # sessions: the rate, mean or percentile of fewer is drawn faint
_WIDEST_COLUMN = 56
_MANY_SLOTS = 45  # whose dots are smaller
MAX_LINES = 6  # versions; there are as many colours


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


class ChartValue(NamedTuple):
    """A value in a slot: of how many sessions, and its 95% interval. Of a sum `is_few` is never so."""

    value: float
    number: int | None = None
    low: float | None = None
    high: float | None = None
    is_sum: bool = False

    @property
    def is_few(self) -> bool:
        """Whether it is a statistic of few sessions."""
        return not self.is_sum and self.number is not None and self.number < FEW


class LinePoint(NamedTuple):
    """A value where it is; `low` and `high` are the ends of its interval, None without one.

    `width` and `height` are those of its column, 0 where it is a dot on a line.
    """

    x: float
    y: float
    slot: int
    value: ChartValue
    low: float | None = None
    high: float | None = None
    width: float = 0
    height: float = 0


class Line(NamedTuple):
    """The points of one series, joined where slots follow each other: `M x y L x y …`.

    `faint` joins those of which one is of few sessions.
    """

    name: str
    number: int
    path: str
    faint: str
    points: tuple[LinePoint, ...]


class Deployment(NamedTuple):
    """When versions were recorded for the first time."""

    x: float
    slot: int
    versions: tuple[str, ...]


class PlacedLabel(NamedTuple):
    """A text below a picture; `anchor` says which part of it is at `x`, as SVG has it."""

    x: float
    anchor: str
    text: str


class Lines(NamedTuple):
    """Lines over an axis, or columns where it has few slots; `radius` is that of the dots."""

    lines: tuple[Line, ...]
    y_ticks: tuple[PlacedTick, ...]
    labels: tuple[PlacedLabel, ...]
    deployments: tuple[Deployment, ...]
    radius: float


class Interval(NamedTuple):
    """An interval on a scale of its own, whose middle, at `none`, is no difference."""

    low: float
    at: float
    high: float
    none: float


def interval(estimate: float, low: float, high: float, *, is_ratio: bool = False) -> Interval:
    """Return the places of a difference and its interval, of a ratio on a scale of logarithms."""
    values = [math.log(max(one, 1e-9)) if is_ratio else one for one in (low, estimate, high)]
    most = max(map(abs, values)) or 1.0
    left, at, right = (_short(INTERVAL_WIDTH / 2 * (1 + 0.96 * one / most)) for one in values)
    return Interval(left, at, right, INTERVAL_WIDTH / 2)


def distribution(
    counts: Mapping[int, int], low: float, high: float, bars: int, threshold: float | None = None
) -> Distribution:
    """Return the bars of counts by number of the part, of `bars` equal parts from `low` to `high`."""
    y_ticks = ticks_around(0, max(counts.values(), default=0), "count", 2, whole=True)
    top = y_ticks[-1].value
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
    ticks = ticks_within(low, high, "count") if high > low else ()
    return Distribution(
        shapes,
        tuple(PlacedTick(place(one.value), one.text) for one in ticks),
        tuple(PlacedTick(_height(one.value, 0, top), one.text) for one in y_ticks),
        at,
    )


def lines(
    axis: Axis,
    values: Mapping[str, Mapping[Any, ChartValue]],
    unit: str,
    most: float | None = None,
    deployments: Mapping[Any, Sequence[str]] | None = None,
) -> Lines | None:
    """Return lines of values by name and key of the axis, from 0 to `most` or the largest value.

    Of `COLUMNS_UNTIL` slots or fewer, of times, they are columns side by side: lines would be two dots.
    None without values.
    """
    ends = [
        end
        for one in values.values()
        for value in one.values()
        for end in (value.value, value.low, value.high)
        if end is not None
    ]
    if not ends:
        return None
    is_whole = unit == "count" and all(end == int(end) for end in ends)
    ticks = ticks_around(min(0.0, *ends), most or max(0.0, *ends), unit, whole=is_whole)
    bottom, top = ticks[0].value, ticks[-1].value
    as_columns = axis.is_time and len(axis.slots) <= COLUMNS_UNTIL
    width = min(_PLOT_WIDTH / len(axis.slots) * 0.8 / len(values), _WIDEST_COLUMN)

    def height(value: float | None) -> float | None:
        return None if value is None else _height(value, bottom, top)

    def point(number: int, slot: int, value: ChartValue) -> LinePoint:
        x, y = _across(axis.slots[slot].at), _height(value.value, bottom, top)
        if not as_columns:
            return LinePoint(_short(x), y, slot, value, height(value.low), height(value.high))
        tall = max(_short(_height(0, bottom, top) - y), 1.5)
        left = x + (number - len(values) / 2) * width
        return LinePoint(_short(left + 1), y, slot, value, width=_short(width - 2), height=tall)

    drawn = []
    for number, (name, one) in enumerate(values.items()):
        points = tuple(
            sorted(
                (point(number, axis.slot_of[key], value) for key, value in one.items()),
                key=lambda point: point.slot,
            )
        )
        joined = axis.is_time and not as_columns
        drawn.append(Line(name, number, *(_paths(points) if joined else ("", "")), points))
    marked = tuple(
        Deployment(_short(_across(axis.slots[slot].at)), slot, tuple(versions))
        for key, versions in (deployments or {}).items()
        if not as_columns and (slot := axis.slot_of.get(key)) is not None
    )
    return Lines(
        tuple(drawn),
        tuple(PlacedTick(_height(one.value, bottom, top), one.text) for one in ticks),
        tuple(map(_placed, axis.labels)),
        marked,
        3 if len(axis.slots) <= _MANY_SLOTS else 2,
    )


def _paths(points: Sequence[LinePoint]) -> tuple[str, str]:
    """Return what joins neighbouring points, and what joins those of which one is of few sessions."""
    paths: tuple[list[str], list[str]] = ([], [])
    ends: list[LinePoint | None] = [None, None]
    for before, point in pairwise(points):
        if point.slot != before.slot + 1:
            continue
        which = before.value.is_few or point.value.is_few
        if ends[which] is not before:
            paths[which].append(f"M{before.x} {before.y}")
        paths[which].append(f"L{point.x} {point.y}")
        ends[which] = point
    return " ".join(paths[0]), " ".join(paths[1])


def _across(share: float) -> float:
    return _LEFT + share * _PLOT_WIDTH


def _height(value: float, bottom: float, top: float) -> float:
    return _short(_TOP + _PLOT_HEIGHT * (1 - (value - bottom) / (top - bottom)))


def _placed(label: AxisLabel) -> PlacedLabel:
    x = _across(label.at)
    return PlacedLabel(_short(x), "end" if x > WIDTH - _RIGHT - _EDGE else "middle", label.text)


class SmallBar(NamedTuple):
    """A bar of a small picture without axes: what failed is its lower part."""

    x: float
    y: float
    width: float
    height: float
    failed: float
    slot: int
    numbers: tuple[int, int]


SMALL_WIDTH, SMALL_HEIGHT = 96, 20


def bars(counts: Sequence[tuple[int, int]]) -> tuple[SmallBar, ...]:
    """Return the bars of counts, each with how many of it failed."""
    most = max((number for number, _ in counts), default=0) or 1
    step = SMALL_WIDTH / max(len(counts), 1)
    return tuple(
        SmallBar(
            _short(place * step),
            _short(SMALL_HEIGHT * (1 - number / most)),
            _short(min(step * 0.75, 12)),
            _short(SMALL_HEIGHT * number / most),
            _short(SMALL_HEIGHT * failed / most),
            place,
            (number, failed),
        )
        for place, (number, failed) in enumerate(counts)
    )


def busiest(sessions: Mapping[str, int]) -> Sequence[str]:
    """Return the series with the most sessions, at most `MAX_LINES`."""
    return sorted(sessions, key=lambda name: (-sessions[name], name))[:MAX_LINES]


def _short(number: float) -> float:
    return round(number, 1)
