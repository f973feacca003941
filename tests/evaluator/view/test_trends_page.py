"""One metric over time on its page: what `spangrade trend` prints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from many_sessions import write_sessions

from spangrade.evaluator.apps.server.pages.trends_page import trends_page
from spangrade.evaluator.reports.html.sessions_page import count_page
from spangrade.evaluator.statistics.trends.trend import trend
from spangrade.tracer.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    db = tmp_path_factory.mktemp("trends") / "many.duckdb"
    write_sessions(db, 300)
    with Store.open(db, read_only=True) as opened:
        yield opened


@pytest.mark.parametrize("metric", ["passed", "cost", "tools:recall"])
def test_the_page_has_the_numbers_of_the_command(store: Store, metric: str) -> None:
    page = trends_page(store, {"show": f"metric:{metric}", "since": "2026-01-01", "until": "2027-01-01"})
    found, printed = page["trend"].trend, trend(store, metric)
    assert found._replace(points=()) == printed._replace(points=())
    assert [point[:4] for point in found.points] == [point[:4] for point in printed.points]
    numbers = [[*filter(None, point[4:])] for one in (found, printed) for point in one.points]
    half = len(numbers) // 2  # sums depend on the order of rows
    assert numbers[:half] == [pytest.approx(one, rel=1e-9) for one in numbers[half:]]
    with_mean = [point for point in page["trend"].trend.points if point.mean is not None and point.key]
    drawn = page["trend"].drawn
    points = zip(drawn["slots"], drawn["charts"][0]["series"][0]["points"], strict=True)
    shown = [(slot["text"], point[0], *point[3:]) for slot, point in points if point]
    assert shown == [(point.key, point.mean, point.low, point.high) for point in with_mean]


def test_there_are_the_metrics_that_were_measured_to_choose_from(store: Store) -> None:
    page = trends_page(store, {})
    assert page["metrics"] == ["passed", "cost", "latency", "tokens", "latency_metrics", "tools:recall"]
    assert page["trend"] is None


@pytest.mark.parametrize(
    ("since", "until", "slot", "shown"),
    [
        ("2026-01-05", "2026-01-07", "hour", "2026-01-05 04:00 to 2026-01-06 17:00"),
        ("2026-01-05", "2026-01-09", "day", "2026-01-05 to 2026-01-08"),
        ("2026-01-05", "2026-01-06", "hour", "2026-01-05 04:00 to 2026-01-05 20:00"),
        ("2025-01-01", "2027-01-01", "day", "2026-01-01 to 2026-03-31"),
    ],
)
def test_the_charts_of_a_time_have_one_axis_and_lead_to_the_sessions_of_its_slots(
    store: Store, since: str, until: str, slot: str, shown: str
) -> None:
    page = trends_page(store, {"since": since, "until": until})
    axis = page["axis"]
    assert (axis.name, axis.range) == (slot, shown)
    titles = [one["title"] for one in page["drawn"]["charts"]]
    assert (titles[0], titles[3]) == (f"Sessions per {slot}", f"Cost per {slot}")
    row = page["rows"][0]
    assert count_page(store, page["filters_of"](row["series"], row["at"])) == row["sessions"]
    whole = count_page(store, {"since": axis.slots[0].since, "until": axis.slots[-1].until})
    assert whole == sum(one["sessions"] for one in page["rows"])


def test_a_rate_says_of_how_many_sessions_it_is(store: Store) -> None:
    page = trends_page(store, {"since": "2026-01-05", "until": "2026-01-08"})
    expected = {
        (row["series"], row["at"].text): (row["passed"] / row["graded"], row["graded"] < 10)
        for row in page["rows"]
        if row["graded"]
    }
    slots, charts = page["drawn"]["slots"], page["drawn"]["charts"]
    assert {
        (line["name"], slots[place]["text"]): (point[0], point[2])
        for line in charts[1]["series"]
        for place, point in enumerate(line["points"])
        if point
    } == expected
    # A sum is no estimate: of few sessions it is as exact.
    assert not any(point[2] for line in charts[3]["series"] for point in line["points"] if point)
