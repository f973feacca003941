"""Charts: round numbers and slots of time below them, and what of a value is drawn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from spangrade.evaluator.apps.server.pages.charts import (
    DAY,
    HOUR,
    WEEK,
    Chart,
    ChartValue,
    Slot,
    TimeStep,
    bars,
    busiest,
    drawn,
    names_axis,
    slot_ns,
    slots_between,
    small_step_for,
    step_for,
    time_axis,
)
from spangrade.evaluator.reports.html.run_page import distribution, round_numbers

JANUARY = datetime(2026, 1, 1)
numbers = st.floats(-1e300, 1e300, allow_subnormal=False)


@given(numbers, numbers, st.integers(1, 8))
def test_round_numbers_are_few_and_within_their_range(one: float, other: float, most: int) -> None:
    low, high = sorted((one, other))
    found = round_numbers(low, high, most)
    slack = 1e-9 * max(abs(low), abs(high))
    assert len(found) <= most + 1
    assert found == sorted(set(found))
    assert all(low - slack <= one <= high + slack for one in found)


@given(st.integers(1, 10**12), st.integers(1, 8))
def test_round_numbers_of_counts_are_whole_and_begin_with_zero(most: int, steps: int) -> None:
    found = round_numbers(0, most, steps, whole=True)
    assert found[0] == 0
    assert all(one == int(one) for one in found)
    assert {f"{one:.0f}".rstrip("0") for one in found[1:2]} <= {"1", "2", "5"}


def test_a_distribution_has_round_numbers_on_both_axes() -> None:
    found = distribution({0: 30, 4: 7}, 0, 12.5, 5, 10)
    assert [one.text for one in found.ticks] == ["0", "5", "10"]
    assert [(one.at, one.text) for one in found.y_ticks] == [(138.0, "0"), (52.7, "20")]
    assert [(one.number, one.low, one.high, one.height) for one in found.bars] == [
        (30, 0, 2.5, 128.0),
        (7, 10.0, 12.5, 29.9),
    ]
    assert found.threshold == 360.0
    assert distribution({0: 5}, 3, 3, 20, 3).ticks == ()
    assert distribution({}, 0, 1, 20).y_ticks[0].text == "0"


times = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1))


def _start(moment: datetime, step: TimeStep) -> datetime:
    ns = slot_ns(int(moment.replace(tzinfo=UTC).timestamp()) * 10**9, step)
    return datetime.fromtimestamp(ns // 10**9, UTC).replace(tzinfo=None)


@given(times, st.timedeltas(timedelta(), timedelta(days=30_000)), st.sampled_from((HOUR, DAY, WEEK)))
def test_the_slots_of_an_axis_follow_each_other_from_the_first_to_the_last(
    first: datetime, length: timedelta, step: TimeStep
) -> None:
    ends = [_start(one, step) for one in (first, first + min(length, 2_000 * step.length))]
    axis = time_axis(ends[::-1], step)
    assert [one.since for one in axis.slots[1:]] == [one.until for one in axis.slots[:-1]]
    assert [axis.slot_of[one] for one in ends] == [0, len(axis.slots) - 1]
    assert [axis.slots[place].at for place in (0, -1)] == [
        one.replace(tzinfo=UTC).timestamp() for one in ends
    ]


def test_a_slot_says_when_it_is() -> None:
    shown = {step.name: time_axis([JANUARY], step) for step in (HOUR, DAY, WEEK)}
    at = 1_767_225_600.0
    assert {name: axis.slots for name, axis in shown.items()} == {
        "hour": (Slot("2026-01-01 00:00 to 01:00", "2026-01-01", "2026-01-01T01:00", at),),
        "day": (Slot("2026-01-01", "2026-01-01", "2026-01-02", at),),
        "week": (Slot("2026-01-01 to 2026-01-07", "2026-01-01", "2026-01-08", at),),
    }
    assert {name: axis.range for name, axis in shown.items()} == {
        "hour": "2026-01-01 to 2026-01-01 01:00",
        "day": "2026-01-01",
        "week": "2026-01-01 to 2026-01-07",
    }
    names = names_axis("model", ["a", "b"])
    assert (names.slots, names.slot_of) == ((Slot("a"), Slot("b")), {"a": 0, "b": 1})


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
    assert 1 <= slots_between(small_step_for(first, last, 16), first, last) <= 16


def test_a_chart_has_a_point_for_each_slot_with_the_words_of_the_table() -> None:
    axis = time_axis([JANUARY, JANUARY + timedelta(days=2)], DAY)
    second, unknown = JANUARY + timedelta(days=1), datetime(2027, 1, 1)
    values = {
        JANUARY: ChartValue(0.5, 9, 0.25, 1.0),
        JANUARY + timedelta(days=2): ChartValue(0.75, 10),
    }
    found = drawn(
        axis,
        [Chart("Passed", "percent", {"1.0\x07": values}, 1), Chart("Cost", "usd", {"1.0": {}})],
        {second: "first session of version 1.1", unknown: "not on the axis"},
        lambda name: {"version": name},
    )
    assert found == {
        "name": "day",
        "slots": [one._asdict() for one in axis.slots],
        "marks": {1: "first session of version 1.1"},
        "charts": [
            {
                "title": "Passed",
                "unit": "percent",
                "most": 1,
                "series": [
                    {
                        "name": "1.0\N{REPLACEMENT CHARACTER}",
                        "filters": {"version": "1.0\x07"},
                        "points": [
                            [0.5, "50.0% (25.0% to 100.0%), n 9", True, 0.25, 1.0],
                            None,
                            [0.75, "75.0%, n 10", False, None, None],
                        ],
                    }
                ],
            }
        ],
    }


def test_a_sum_of_few_sessions_is_as_exact_as_one_of_many() -> None:
    assert [
        ChartValue(1, number, is_sum=is_sum).is_few for number in (9, 10) for is_sum in (False, True)
    ] == [
        True,
        False,
        False,
        False,
    ]
    assert not ChartValue(1).is_few


def test_the_busiest_series_are_drawn_and_of_equal_ones_the_first_by_name() -> None:
    assert busiest({"c": 1, "b": 1, "a": 9, **{f"d{one}": 5 for one in range(5)}}) == [
        "a",
        *(f"d{one}" for one in range(5)),
    ]
    assert busiest({"c": 1, "b": 1}) == ["b", "c"]


def test_what_failed_is_the_lower_part_of_a_small_bar() -> None:
    assert [one[:] for one in bars([(4, 1), (0, 0), (2, 2)])] == [
        (0.0, 0.0, 12, 20.0, 5.0, (4, 1)),
        (32.0, 20.0, 12, 0.0, 0.0, (0, 0)),
        (64.0, 10.0, 12, 10.0, 10.0, (2, 2)),
    ]
    assert bars([]) == ()
