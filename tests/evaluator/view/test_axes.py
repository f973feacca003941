"""The axes of charts: round numbers and round times, and what is drawn along them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade.evaluator.reports.html.axes import (
    DAY,
    HOUR,
    WEEK,
    Axis,
    AxisLabel,
    TimeStep,
    names_axis,
    slot_start,
    small_step_for,
    step_for,
    ticks_around,
    ticks_within,
    time_axis,
)
from spangrade.evaluator.reports.html.charts import COLUMNS_UNTIL, ChartValue, lines

UNITS = ("count", "percent", "usd", "seconds")
JANUARY = datetime(2026, 1, 1)
numbers = st.floats(-1e300, 1e300, allow_subnormal=False)


def is_round(step: float) -> bool:
    power = math.floor(math.log10(step) + 1e-9)
    return any(math.isclose(step, float(f"{one}e{power}")) for one in (1, 2, 5))


@given(st.floats(1e-200, 1e300), st.sampled_from(UNITS), st.integers(1, 8))
def test_ticks_from_zero_are_round_few_and_reach_the_largest_value(top: float, unit: str, most: int) -> None:
    ticks = ticks_around(0, top, unit, most)
    values = [one.value for one in ticks]
    assert values[0] == 0
    assert values[-1] >= top * (1 - 1e-9) > values[-2] * (1 - 1e-6) * (1 - 1e-9)
    assert 2 <= len(values) <= most + 2
    assert is_round(values[1])
    assert all(math.isclose(b - a, values[1], rel_tol=1e-6) for a, b in pairwise(values))


@given(numbers, numbers, st.sampled_from(UNITS))
def test_any_range_has_few_ticks_around_it_and_within_it(one: float, other: float, unit: str) -> None:
    low, high = sorted((one, other))
    around = [tick.value for tick in ticks_around(low, high, unit)]
    slack = 1e-9 * max(abs(low), abs(high))
    assert around[0] <= low + slack
    assert around[-1] >= high - slack
    assert 2 <= len(around) <= 6
    within = [tick.value for tick in ticks_within(low, high, unit)]
    assert len(within) <= 6
    assert all(low - slack <= value <= high + slack for value in within)


@given(st.floats(0.001, 1e11), st.sampled_from(UNITS))
def test_the_texts_of_ticks_differ(top: float, unit: str) -> None:
    texts = [one.text for one in ticks_around(0, top, unit)]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("top", "unit", "texts"),
    [
        (18, "count", ["0", "5", "10", "15", "20"]),
        (1.06, "usd", ["$0", "$0.50", "$1.00", "$1.50"]),
        (0.0021, "usd", ["$0", "$0.001", "$0.002", "$0.003"]),
        (59.9, "seconds", ["0 s", "20 s", "40 s", "60 s"]),
        (0.03, "seconds", ["0 ms", "10 ms", "20 ms", "30 ms"]),
        (1, "percent", ["0%", "50%", "100%"]),
        (0.004, "percent", ["0%", "0.1%", "0.2%", "0.3%", "0.4%"]),
        (1_800_000, "count", ["0", "0.5M", "1.0M", "1.5M", "2.0M"]),
    ],
)
def test_ticks_have_the_unit_and_as_many_decimals_as_their_step(
    top: float, unit: str, texts: list[str]
) -> None:
    assert [one.text for one in ticks_around(0, top, unit)] == texts


def test_counts_have_no_halves() -> None:
    assert [one.value for one in ticks_around(0, 1, "count", whole=True)] == [0, 1]


times = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1))


@given(times, st.timedeltas(timedelta(), timedelta(days=30_000)), st.sampled_from((HOUR, DAY, WEEK)))
def test_labels_are_few_at_round_times_and_at_slots(
    first: datetime, length: timedelta, step: TimeStep
) -> None:
    length = min(length, 2_000 * step.length)
    ends = [
        slot_start(int(one.replace(tzinfo=UTC).timestamp()) * 10**9, step) for one in (first, first + length)
    ]
    axis = time_axis(ends, step)
    assert len(axis.labels) <= 5
    assert [one.at for one in axis.labels] == sorted({one.at for one in axis.labels})
    assert {one.at for one in axis.labels} <= {one.at for one in axis.slots}
    assert [one.since for one in axis.slots[1:]] == [one.until for one in axis.slots[:-1]]


def labels(step: TimeStep, first: datetime, last: datetime) -> list[str]:
    return [one.text for one in time_axis([first, last], step).labels]


def test_labels_are_hours_days_mondays_months_or_years() -> None:
    day = timedelta(days=1)
    assert labels(HOUR, JANUARY, JANUARY + timedelta(hours=23)) == ["1 Jan", "06:00", "12:00", "18:00"]
    assert labels(HOUR, JANUARY, JANUARY + timedelta(hours=47)) == [
        "1 Jan",
        "12:00",
        "2 Jan",
        "12:00",
    ]
    assert labels(DAY, JANUARY, JANUARY + 4 * day) == ["1 Jan", "2 Jan", "3 Jan", "4 Jan", "5 Jan"]
    assert labels(DAY, JANUARY, JANUARY + 29 * day) == ["5 Jan", "12 Jan", "19 Jan", "26 Jan"]
    assert labels(DAY, JANUARY, JANUARY + 89 * day) == ["Jan 2026", "Feb 2026", "Mar 2026"]
    assert labels(WEEK, datetime(2020, 1, 6), datetime(2026, 1, 5)) == ["2022", "2024", "2026"]


def test_slots_are_as_long_as_a_picture_can_show() -> None:
    hour, day = HOUR.ns, DAY.ns
    assert [step_for(0, length).name for length in (0, 48 * hour, 3 * day, 400 * day, 500 * day)] == [
        "hour",
        "hour",
        "day",
        "day",
        "week",
    ]
    small = [small_step_for(0, length, 16) for length in (0, 10 * hour, 10 * day, 90 * day, 9_000 * day)]
    assert [one.name for one in small] == ["minute", "hour", "day", "week", "520 weeks"]


@given(st.integers(0, 4 * 10**18), st.integers(0, 4 * 10**18))
def test_small_pictures_have_at_most_as_many_slots(one: int, other: int) -> None:
    first, last = sorted((one, other))
    step = small_step_for(first, last, 16)
    assert len(time_axis([slot_start(first, step), slot_start(last, step)], step).slots) <= 16


def days(*numbers: int) -> Axis:
    return time_axis([JANUARY + timedelta(days=one) for one in numbers], DAY, COLUMNS_UNTIL)


def test_a_line_is_broken_where_a_slot_is_missing_and_faint_beside_few_sessions() -> None:
    values = {0: ChartValue(0.0, 50), 1: ChartValue(1.0, 10), 2: ChartValue(0.5, 9), 4: ChartValue(0.5, 50)}
    found = lines(
        days(*range(5)), {"": {JANUARY + timedelta(days=day): one for day, one in values.items()}}, "count", 1
    )
    assert found is not None
    (line,) = found.lines
    assert (line.path, line.faint) == ("M108.0 138.0 L180.0 10.0", "M180.0 10.0 L252.0 74.0")
    assert [one.value.is_few for one in line.points] == [False, False, True, False]
    assert lines(days(0), {}, "count") is None


def test_few_slots_are_columns_side_by_side() -> None:
    one, other = JANUARY, JANUARY + timedelta(days=9)
    few = lines(
        days(0, 9), {"1": {one: ChartValue(1), other: ChartValue(2)}, "2": {one: ChartValue(2)}}, "count"
    )
    assert few is not None
    columns = [point for line in few.lines for point in line.points]
    assert [one.path for one in few.lines] == ["", ""]
    assert all(one.width > 0 and one.height > 0 for one in columns)
    spans = sorted((one.x, one.x + one.width) for one in columns)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert [(one.x, one.anchor, one.text) for one in few.labels] == [
        (162.0, "middle", "2026-01-01"),
        (342.0, "middle", "2026-01-10"),
    ]


def test_versions_are_marked_where_they_began() -> None:
    began = {JANUARY + timedelta(days=1): ["2"], datetime(2027, 1, 1): ["3"]}
    found = lines(days(*range(5)), {"1": {JANUARY: ChartValue(1)}}, "count", None, began)
    assert found is not None
    assert [(one.slot, one.versions) for one in found.deployments] == [(1, ("2",))]


def test_names_below_a_picture_are_few_and_short() -> None:
    axis = names_axis("model", [f"model-of-a-long-name-{number}" for number in range(9)])
    assert [one.text for one in axis.labels] == ["model-of-a-…"] * 3
    assert axis.slots[8].text == "model-of-a-long-name-8"


def test_names_have_slots_in_their_order_without_lines_between_them() -> None:
    axis = names_axis("version", ["1.0", "1.1"])
    assert axis.labels == (AxisLabel(0.25, "1.0"), AxisLabel(0.75, "1.1"))
    found = lines(axis, {"": {"1.0": ChartValue(0.5, 20, 0.25, 1.0), "1.1": ChartValue(0.0, 20)}}, "count", 1)
    assert found is not None
    (line,) = found.lines
    assert (line.path, line.faint) == ("", "")
    assert [(one.x, one.y, one.low, one.high) for one in line.points] == [
        (162.0, 74.0, 106.0, 10.0),
        (342.0, 138.0, None, None),
    ]
