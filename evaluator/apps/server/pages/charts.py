"""What the charts of pages show: values over time for `static/charts.js`, and small pictures as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from spangrade.evaluator.reports.html.rendering import shown, value

INTERVAL_WIDTH = 200
FEW = 10  # sessions: the rate, mean or percentile of fewer is drawn hollow
MAX_LINES = 6  # series of a chart; there are as many colours
MONDAY_NS = 4 * 86_400 * 10**9
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


class TimeStep(NamedTuple):
    """How long the slots of an axis of times are; one begins at each Monday, 00:00, that a step leads to."""

    name: str
    length: timedelta

    @property
    def ns(self) -> int:
        """The length in nanoseconds."""
        return self.length // timedelta(microseconds=1) * 1_000


HOUR, DAY, WEEK = TimeStep("hour", _HOUR), TimeStep("day", _DAY), TimeStep("week", 7 * _DAY)
_SHORT = tuple(TimeStep(f"{n} minutes" if n > 1 else "minute", timedelta(minutes=n)) for n in (1, 5, 15, 30))
_HOURS = tuple(TimeStep(f"{n} hours" if n > 1 else "hour", n * _HOUR) for n in (1, 2, 3, 6, 12))
_DAYS = tuple(TimeStep(f"{n} days" if n > 1 else "day", n * _DAY) for n in (1, 2))
_WEEKS = tuple(TimeStep(f"{n} weeks" if n > 1 else "week", 7 * n * _DAY) for n in (1, 2, 4, 12, 52, 520))


class Slot(NamedTuple):
    """A place on an axis: its text and, of a time, when it begins and ends as texts and in seconds."""

    text: str
    since: str = ""
    until: str = ""
    at: float | None = None


class Axis(NamedTuple):
    """What the charts of a page have in common from left to right; `slot_of` are the numbers of slots by key.

    `name` is what a slot is: a "day".
    """

    name: str
    slots: tuple[Slot, ...]
    slot_of: Mapping[Any, int]

    @property
    def range(self) -> str:
        """From when to when it is, as a text: the last day, or the hour at which it ends."""
        first, last = self.slots[0], self.slots[-1]
        if "T" in "".join(f"{one.since}{one.until}" for one in self.slots[:2]):
            return f"{first.since.replace('T', ' ')} to {last.until.replace('T', ' ')}"
        return " to ".join(dict.fromkeys((first.since, last.text.rpartition(" to ")[2])))


def step_for(first_ns: int, last_ns: int) -> TimeStep:
    """Return how long the slots of a chart of these times are."""
    days = (last_ns - first_ns) / DAY.ns
    return HOUR if days <= 2 else DAY if days <= 400 else WEEK


def small_step_for(first_ns: int, last_ns: int, most: int) -> TimeStep:
    """Return the shortest step of which these times have at most `most`."""
    steps = (*_SHORT, *_HOURS, *_DAYS, *_WEEKS)
    return next((one for one in steps if slots_between(one, first_ns, last_ns) <= most), steps[-1])


def slots_between(step: TimeStep, first_ns: int, last_ns: int) -> int:
    """Return the number of slots from the one of a time to that of another."""
    return (slot_ns(last_ns, step) - slot_ns(first_ns, step)) // step.ns + 1


def slot_ns(ns: int, step: TimeStep) -> int:
    """Return when the slot of a time begins, in nanoseconds."""
    return (ns - MONDAY_NS) // step.ns * step.ns + MONDAY_NS


def time_axis(starts: Sequence[datetime], step: TimeStep) -> Axis:
    """Return the axis of slots from the first of these starts, in UTC without a zone, to the last one."""
    first = min(starts)
    number = (max(starts) - first) // step.length + 1
    every = [first + place * step.length for place in range(number)]
    slots = tuple(
        Slot(_slot_text(one, step), iso(one), iso(one + step.length), one.replace(tzinfo=UTC).timestamp())
        for one in every
    )
    return Axis(step.name, slots, {one: place for place, one in enumerate(every)})


def names_axis(name: str, texts: Sequence[str]) -> Axis:
    """Return the axis of texts in their order, each with a slot."""
    return Axis(name, tuple(map(Slot, texts)), {text: place for place, text in enumerate(texts)})


def iso(moment: datetime) -> str:
    """Return a time as the header's filters have it: a day, with hour and minute where it is not midnight."""
    return moment.strftime("%Y-%m-%dT%H:%M" if moment.time() != datetime.min.time() else "%Y-%m-%d")


def _slot_text(start: datetime, step: TimeStep) -> str:
    if step.length == _DAY:
        return start.strftime("%Y-%m-%d")
    end = start + step.length
    if step.length > _DAY:
        return f"{start:%Y-%m-%d} to {end - _DAY:%Y-%m-%d}"
    return f"{start:%Y-%m-%d %H:%M} to {end:%H:%M}"


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

    def text(self, unit: str) -> str:
        """Return it as the page's table has it, with its interval and the number of sessions."""
        interval = "" if self.low is None else f" ({value(self.low, unit)} to {value(self.high, unit)})"
        number = "" if self.number is None else f", n {self.number:,}"
        return f"{value(self.value, unit)}{interval}{number}"


class Chart(NamedTuple):
    """A chart: values by name of the series and key of the axis. `most` is the largest that is possible."""

    title: str
    unit: str
    values: Mapping[str, Mapping[Any, ChartValue]]
    most: float | None = None


def drawn(
    axis: Axis,
    charts: Sequence[Chart],
    marks: Mapping[Any, str] | None = None,
    filters_of: Callable[[str], Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """Return charts of one axis as JSON for the page's script; those without values are left out.

    `marks` are texts at some keys, drawn as lines. `filters_of` are the filters of the list that leave the
    sessions of a series: its points lead to these.
    """

    def points(chart: Chart, values: Mapping[Any, ChartValue]) -> list[list[Any] | None]:
        placed: list[list[Any] | None] = [None] * len(axis.slots)
        for key, one in values.items():
            placed[axis.slot_of[key]] = [one.value, one.text(chart.unit), one.is_few, one.low, one.high]
        return placed

    return {
        "name": axis.name,
        "slots": [one._asdict() for one in axis.slots],
        "marks": {
            axis.slot_of[key]: shown(text) for key, text in (marks or {}).items() if key in axis.slot_of
        },
        "charts": [
            {
                "title": chart.title,
                "unit": chart.unit,
                "most": chart.most,
                "series": [
                    {
                        "name": shown(name),
                        "filters": None if filters_of is None else filters_of(name),
                        "points": points(chart, values),
                    }
                    for name, values in chart.values.items()
                ],
            }
            for chart in charts
            if any(chart.values.values())
        ],
    }


def busiest(sessions: Mapping[str, int]) -> Sequence[str]:
    """Return the series with the most sessions, at most `MAX_LINES`."""
    return sorted(sessions, key=lambda name: (-sessions[name], name))[:MAX_LINES]


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
    left, at, right = (round(INTERVAL_WIDTH / 2 * (1 + 0.96 * one / most), 1) for one in values)
    return Interval(left, at, right, INTERVAL_WIDTH / 2)


class SmallBar(NamedTuple):
    """A bar of a small picture without axes: what failed is its lower part."""

    x: float
    y: float
    width: float
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
            round(place * step, 1),
            round(SMALL_HEIGHT * (1 - number / most), 1),
            round(min(step * 0.75, 12), 1),
            round(SMALL_HEIGHT * number / most, 1),
            round(SMALL_HEIGHT * failed / most, 1),
            (number, failed),
        )
        for place, (number, failed) in enumerate(counts)
    )
