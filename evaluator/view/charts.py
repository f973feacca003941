"""Charts as plain SVG: bars of a distribution, and lines over days. Templates draw them from these shapes.

Everything is an attribute of an element, because the policy of the pages allows no style in them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

WIDTH, HEIGHT = 440, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 8, 10, 22
_PLOT_WIDTH, _PLOT_HEIGHT = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
INTERVAL_WIDTH = 200
_MOST_LABELS = 4  # below a picture
COLUMNS_UNTIL = 2  # days
_WIDEST_COLUMN = 56
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


class Tick(NamedTuple):
    """A value beside an axis."""

    at: float
    value: float


class Distribution(NamedTuple):
    """Bars over a range of values; `threshold` is where the gate's line is."""

    bars: tuple[ChartBar, ...]
    ticks: tuple[Tick, ...]
    most: int
    threshold: float | None


class LinePoint(NamedTuple):
    """A value of a day; `width` and `height` are those of its column, 0 where it is a dot on a line."""

    x: float
    y: float
    day: date
    value: float
    width: float = 0
    height: float = 0


class Line(NamedTuple):
    """The points of one series, joined where days follow each other: `M x y L x y …`."""

    name: str
    number: int
    path: str
    points: tuple[LinePoint, ...]


class Deployment(NamedTuple):
    """A day on which versions were recorded for the first time."""

    x: float
    day: date
    versions: tuple[str, ...]


class DayLabel(NamedTuple):
    """A day below a picture; `anchor` says where its text begins, as SVG has it."""

    x: float
    anchor: str
    day: date


class Lines(NamedTuple):
    """Lines over days, or columns where there are few days; `days` are those that are named below."""

    lines: tuple[Line, ...]
    y_ticks: tuple[Tick, ...]
    days: tuple[DayLabel, ...]
    deployments: tuple[Deployment, ...] = ()


class MeanAt(NamedTuple):
    """A mean and its interval, at `x`; the interval's ends are None where there is too little data."""

    x: float
    y: float
    low: float | None
    high: float | None
    label: str


class MeansChart(NamedTuple):
    """Means of groups in their order; `labelled` are those whose names have room below."""

    points: tuple[MeanAt, ...]
    y_ticks: tuple[Tick, ...]
    labelled: tuple[MeanAt, ...]


def means(values: Sequence[tuple[str, float, float | None, float | None]]) -> MeansChart | None:
    """Return the points of groups: label, mean, and the ends of its interval. None without groups."""
    numbers = [one for _, *three in values for one in three if one is not None and math.isfinite(one)]
    if not numbers:
        return None
    bottom, top = min(0.0, *numbers), max(0.0, *numbers)
    top = top if top > bottom else bottom + 1.0

    def place(value: float) -> float:
        return _short(_TOP + _PLOT_HEIGHT * (1 - (value - bottom) / (top - bottom)))

    step = _PLOT_WIDTH / len(values)
    points = tuple(
        MeanAt(
            _short(_LEFT + (number + 0.5) * step),
            place(mean),
            None if low is None else place(low),
            None if high is None else place(high),
            label,
        )
        for number, (label, mean, low, high) in enumerate(values)
    )
    ticks = tuple(Tick(place(one), one) for one in (bottom, (bottom + top) / 2, top))
    every = math.ceil(len(points) / _MOST_LABELS)
    return MeansChart(points, ticks, points[::every])


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
    most = max(counts.values(), default=0)
    width, step = _PLOT_WIDTH / bars, (high - low) / bars
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
        if (height := max(count / most * _PLOT_HEIGHT, 1.5))
    )
    at = None
    if threshold is not None and high > low and low <= threshold <= high:
        at = _short(_LEFT + (threshold - low) / (high - low) * _PLOT_WIDTH)
    ticks = tuple(
        Tick(_short(_LEFT + share * _PLOT_WIDTH), low + share * (high - low))
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    return Distribution(shapes, ticks if high > low else ticks[:1], most, at)


def lines(
    values: Mapping[str, Mapping[date, float]],
    most: float | None = None,
    deployments: Mapping[date, Sequence[str]] | None = None,
) -> Lines | None:
    """Return lines of values by name and day, from 0 to `most` or the largest value; None without values.

    Of `COLUMNS_UNTIL` days or fewer they are columns side by side: lines would be two dots.
    """
    days = sorted({day for one in values.values() for day in one})
    if not days:
        return None
    first, last = days[0], days[-1]
    top = most or max(value for one in values.values() for value in one.values()) or 1.0
    span = max((last - first).days, 1)
    as_columns = len(days) <= COLUMNS_UNTIL
    width = min(_PLOT_WIDTH / len(days) * 0.8 / len(values), _WIDEST_COLUMN)

    def height(value: float) -> float:
        return _short(_PLOT_HEIGHT * value / top)

    def middle(day: date) -> float:
        return _LEFT + (days.index(day) + 0.5) / len(days) * _PLOT_WIDTH

    def point(number: int, day: date, value: float) -> LinePoint:
        y = _short(_TOP + _PLOT_HEIGHT * (1 - value / top))
        if not as_columns:
            return LinePoint(_short(_LEFT + (day - first).days / span * _PLOT_WIDTH), y, day, value)
        x = middle(day) + (number - len(values) / 2) * width
        return LinePoint(_short(x + 1), y, day, value, _short(width - 2), max(height(value), 1.5))

    drawn = []
    for number, (name, one) in enumerate(values.items()):
        points = tuple(point(number, day, one[day]) for day in sorted(one))
        path, before = [], None
        for at in () if as_columns else points:
            path.append(f"{'L' if before is not None and (at.day - before).days == 1 else 'M'}{at.x} {at.y}")
            before = at.day
        drawn.append(Line(name, number, " ".join(path), points))
    ticks = tuple(Tick(_short(_TOP + _PLOT_HEIGHT * (1 - share)), top * share) for share in (0, 0.5, 1))
    marked = tuple(
        Deployment(_short(_LEFT + (day - first).days / span * _PLOT_WIDTH), day, tuple(versions))
        for day, versions in (deployments or {}).items()
        if not as_columns and first <= day <= last
    )
    ends = (DayLabel(_LEFT, "start", first), DayLabel(WIDTH - _RIGHT, "end", last))
    below = tuple(DayLabel(_short(middle(day)), "middle", day) for day in days) if as_columns else ends
    return Lines(tuple(drawn), ticks, below, marked)


class SmallBar(NamedTuple):
    """A bar of a small picture without axes: what failed is its lower part."""

    x: float
    y: float
    height: float
    failed: float
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
            _short(SMALL_HEIGHT * number / most),
            _short(SMALL_HEIGHT * failed / most),
            (number, failed),
        )
        for place, (number, failed) in enumerate(counts)
    )


def busiest(sessions: Mapping[str, int]) -> Sequence[str]:
    """Return the series with the most sessions, at most `MAX_LINES`."""
    return sorted(sessions, key=lambda name: (-sessions[name], name))[:MAX_LINES]


def _short(number: float) -> float:
    return round(number, 1)
