"""The axes of charts: round numbers, and times at round hours, days and months."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

_MOST_TICKS = 4  # steps of an axis of numbers
_MOST_LABELS = 5  # times below a picture
_MOST_NAMES, _LONGEST_NAME = 4, 12  # below a picture, and their characters
_FACTORS = (1, 2, 5, 10)
_MONDAY = datetime(1970, 1, 5)
MONDAY_NS = 4 * 86_400 * 10**9
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1_200)


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
    """A place on an axis: where its middle is, from 0 to 1, and the time that it has as texts, or no time."""

    at: float
    text: str
    since: str = ""
    until: str = ""


class AxisLabel(NamedTuple):
    """A text below a picture, at a place from 0 to 1."""

    at: float
    text: str


class Axis(NamedTuple):
    """What the charts of a page have in common from left to right; `slot_of` are the numbers of slots by key.

    Values of neighbouring slots are joined if these are times, `is_time`. `name` is what a slot is: a "day".
    """

    name: str
    slots: tuple[Slot, ...]
    labels: tuple[AxisLabel, ...]
    slot_of: Mapping[Any, int]
    is_time: bool

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
    return next((one for one in steps if _number(one, first_ns, last_ns) <= most), steps[-1])


def _number(step: TimeStep, first_ns: int, last_ns: int) -> int:
    return (slot_ns(last_ns, step) - slot_ns(first_ns, step)) // step.ns + 1


def slot_ns(ns: int, step: TimeStep) -> int:
    """Return when the slot of a time begins, in nanoseconds."""
    return (ns - MONDAY_NS) // step.ns * step.ns + MONDAY_NS


def slot_start(ns: int, step: TimeStep) -> datetime:
    """Return when the slot of a time begins, in UTC without a zone."""
    return datetime.fromtimestamp(slot_ns(ns, step) // 10**9, UTC).replace(tzinfo=None)


def time_axis(starts: Sequence[datetime], step: TimeStep, few: int = 0) -> Axis:
    """Return the axis of slots from the first of these starts to the last one.

    With at most `few` starts it has these alone, each with its label.
    """
    starts = sorted(set(starts))
    if len(starts) > few:
        number = (starts[-1] - starts[0]) // step.length + 1
        shown = [starts[0] + place * step.length for place in range(number)]
        places = {one: place for place, one in enumerate(shown)}
        labels = tuple(
            AxisLabel(_middle((one - starts[0]) // step.length, number), text)
            for one, text in _labelled(starts[0], shown[-1], step)
        )
    else:
        shown, places = starts, {one: place for place, one in enumerate(starts)}
        labels = tuple(
            AxisLabel(_middle(place, len(shown)), iso(one).replace("T", " "))
            for place, one in enumerate(shown)
        )
    slots = tuple(
        Slot(_middle(place, len(shown)), _slot_text(one, step), iso(one), iso(one + step.length))
        for place, one in enumerate(shown)
    )
    return Axis(step.name, slots, labels, places, is_time=True)


def names_axis(name: str, texts: Sequence[str]) -> Axis:
    """Return the axis of texts in their order, each with a slot; those that have room have a label."""
    number = len(texts)
    slots = tuple(Slot(_middle(place, number), text) for place, text in enumerate(texts))
    labels = tuple(
        AxisLabel(one.at, one.text if len(one.text) <= _LONGEST_NAME else f"{one.text[: _LONGEST_NAME - 1]}…")
        for one in slots[:: math.ceil(number / _MOST_NAMES) or 1]
    )
    return Axis(name, slots, labels, {text: place for place, text in enumerate(texts)}, is_time=False)


def _middle(place: int, number: int) -> float:
    return round((place + 0.5) / number, 5)


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


def _labelled(first: datetime, last: datetime, step: TimeStep) -> Iterator[tuple[datetime, str]]:
    """Yield round times from the first slot to the last one, at most five, each with its text."""
    for hours in (*_HOURS, *_DAYS, *_WEEKS[:2]):
        if hours.length < step.length:
            continue
        begins = _MONDAY + math.ceil((first - _MONDAY) / hours.length) * hours.length
        number = (last - begins) // hours.length + 1
        if number <= _MOST_LABELS:
            for place in range(number):
                one = begins + place * hours.length
                yield one, f"{one:%H:%M}" if iso(one).find("T") > 0 else f"{one.day} {one:%b}"
            return
    yield from _months(first, last)


def _months(first: datetime, last: datetime) -> Iterator[tuple[datetime, str]]:
    before = first - timedelta(microseconds=1)
    start, end = before.year * 12 + before.month, last.year * 12 + last.month - 1
    for months in _MONTHS:
        numbers = range(-(-start // months) * months, end + 1, months)
        if len(numbers) <= _MOST_LABELS:
            for number in numbers:
                one = datetime(number // 12, number % 12 + 1, 1)
                yield one, f"{one:%Y}" if months >= 12 else f"{one:%b %Y}"
            return


class Tick(NamedTuple):
    """A round number and its text beside an axis."""

    value: float
    text: str


def ticks_around(
    low: float, high: float, unit: str, most: int = _MOST_TICKS, *, whole: bool = False
) -> tuple[Tick, ...]:
    """Return round numbers from the last at or below `low` to the first at or above `high`."""
    factor, power = _step(low, high, most, whole=whole)
    step = float(f"{factor}e{power}")
    first, last = math.floor(low / step), math.ceil(high / step)
    return _ticks(range(first, max(last, first + 1) + 1), factor, power, unit)


def ticks_within(low: float, high: float, unit: str, most: int = _MOST_TICKS) -> tuple[Tick, ...]:
    """Return the round numbers from `low` to `high`."""
    factor, power = _step(low, high, most)
    step = float(f"{factor}e{power}")
    return _ticks(range(math.ceil(low / step), math.floor(high / step) + 1), factor, power, unit)


def _step(low: float, high: float, most: int, *, whole: bool = False) -> tuple[int, int]:
    """Return 1, 2 or 5 and a power of ten: the least step of which the range has at most `most`."""
    least = high / most - low / most
    if least < 1e-290:
        least = 1.0
    power = math.floor(math.log10(least))
    factor = next((one for one in _FACTORS if float(f"{one}e{power}") >= least), 10)
    if factor == 10:
        factor, power = 1, power + 1
    return (1, 0) if whole and power < 0 else (factor, power)


def _ticks(numbers: range, factor: int, power: int, unit: str) -> tuple[Tick, ...]:
    values = [float(f"{factor * number}e{power}") for number in numbers]
    return tuple(Tick(value, _text(value, power, unit)) for value in values)


def _text(value: float, power: int, unit: str) -> str:
    """Return a round number as a text: all of one axis have as many decimals."""
    if unit == "percent":
        return f"{_decimals(value * 100, power + 2)}%"
    if unit == "usd":
        return f"{'−' if value < 0 else ''}${_decimals(abs(value), min(power, -2) if power < 0 else power)}"
    if unit == "seconds":
        return f"{_decimals(value * 1000, power + 3)} ms" if power < -1 else f"{_decimals(value, power)} s"
    return _decimals(value, power)


def _decimals(value: float, power: int) -> str:
    if power < -6 or power > 11:
        return f"{value:.12g}"
    size, letter = next((one for one in ((9, "G"), (6, "M")) if power >= one[0] - 1), (0, ""))
    return f"{value / 10**size:,.{max(0, size - power)}f}{letter}" if value else "0"
