"""One metric over time on its page: what `spangrade trend` prints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from many_sessions import write_sessions

from spangrade.evaluator.statistics.trends.trend import By, trend
from spangrade.evaluator.view.charts import MeanAt, means
from spangrade.evaluator.view.trends_page import trends_page
from spangrade.tracer.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    db = tmp_path_factory.mktemp("trends") / "many.duckdb"
    write_sessions(db, 300)
    with Store.open(db, read_only=True) as opened:
        yield opened


@pytest.mark.parametrize("by", By)
@pytest.mark.parametrize("metric", ["passed", "cost", "tool_recall"])
def test_the_page_has_the_numbers_of_the_command(store: Store, metric: str, by: By) -> None:
    page = trends_page(store, {"metric": metric, "by": by, "since": "2026-01-01", "until": "2027-01-01"})
    found, printed = page["trend"].trend, trend(store, metric, by)
    assert found._replace(points=()) == printed._replace(points=())
    assert [point[:4] for point in found.points] == [point[:4] for point in printed.points]
    numbers = [[*filter(None, point[4:])] for one in (found, printed) for point in one.points]
    half = len(numbers) // 2  # sums depend on the order of rows
    assert numbers[:half] == [pytest.approx(one, rel=1e-9) for one in numbers[half:]]
    with_mean = [point for point in page["trend"].trend.points if point.mean is not None]
    assert [one.label for one in page["trend"].chart.points] == [
        point.key or "not recorded" for point in with_mean
    ]


def test_there_are_the_metrics_that_were_measured_to_choose_from(store: Store) -> None:
    page = trends_page(store, {})
    assert page["metrics"] == ["passed", "cost", "latency", "tokens", "latency_metrics", "tool_recall"]
    assert page["trend"] is None


def test_a_point_without_an_interval_has_none_in_the_picture() -> None:
    chart = means([("1.0", 0.5, 0.25, 1.0), ("1.1", 0.0, None, None)])
    assert chart is not None
    assert chart.points == (MeanAt(162.0, 74.0, 106.0, 10.0, "1.0"), MeanAt(342.0, 138.0, None, None, "1.1"))
    assert [tick.value for tick in chart.y_ticks] == [0.0, 0.5, 1.0]
    assert means([]) is None
