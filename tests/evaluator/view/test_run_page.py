"""The pages of runs and of sessions over time, compared with the run's own totals and with plain queries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time
from pathlib import Path
from typing import Any

import pytest
from many_sessions import write_sessions
from otlp_sessions import Call, Said, write_golden
from otlp_sessions import write_sessions as write_calls
from paths import SAMPLE

import spangrade
from spangrade import InputError
from spangrade.evaluator.apps.server.pages.trends_page import trends_page
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.metrics.latency import nearest_rank
from spangrade.evaluator.reports.html.run_page import BARS, distribution, run_page, runs_page
from spangrade.evaluator.reports.html.sessions_page import count_page
from spangrade.evaluator.statistics.intervals import wilson_interval
from spangrade.tracer.store import Store


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Run]]:
    db = tmp_path_factory.mktemp("view") / "graded.duckdb"
    run = spangrade.open(db).grade(SAMPLE, gates=["tool_success_rate>=0.9", "cost<=0.01"])
    with Store.open(db, read_only=True) as opened:
        yield opened, run


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    db = tmp_path_factory.mktemp("view") / "many.duckdb"
    write_sessions(db, 3_000)
    with Store.open(db, read_only=True) as opened:
        yield opened


def test_the_metrics_of_a_run_are_those_of_its_results(graded: tuple[Store, Run]) -> None:
    store, run = graded
    page = run_page(store, run.run_id)
    assert page is not None
    shown = {
        metric["metric"]: {
            "scores": metric["scores"],
            "mean": metric["mean"],
            "p50": metric["p50"],
            "p95": metric["p95"],
            "pass_rate": metric["rate"] and metric["rate"]["share"],
            "inconclusive": metric["inconclusive"],
            "not_applicable": metric["not_applicable"],
            "failures": metric["failures"],
            "judge_failures": 0,
        }
        for metric in page["metrics"]
    }
    expected = {name: totals.to_json() for name, totals in run.shown_metrics.items()}
    assert shown == {name: pytest.approx(totals) for name, totals in expected.items()}
    thresholds = {metric["metric"]: metric["threshold"] for metric in page["metrics"] if metric["threshold"]}
    assert thresholds.items() <= dict(run.thresholds).items()
    assert thresholds["tool_success_rate"] == ">= 0.9"


def test_a_run_has_its_verdicts_and_pass_rate_with_wilsons_interval(graded: tuple[Store, Run]) -> None:
    store, run = graded
    page = run_page(store, run.run_id)
    assert page is not None
    assert page["verdicts"] == {str(verdict): number for verdict, number in run.verdicts.items()}
    low, high = wilson_interval(2, 4)
    assert page["rate"] == {"passed": 2, "of": 4, "share": 0.5, "low": low, "high": high}
    (listed,) = runs_page(store, 1)["runs"]
    assert (listed["run_id"], listed["rate"]) == (run.run_id, page["rate"])


def test_failing_sessions_are_grouped_by_reason_tool_and_agent(graded: tuple[Store, Run]) -> None:
    store, run = graded
    page = run_page(store, run.run_id)
    assert page is not None
    failed = {one.session_id for one in run.sessions if one.verdict == "failed"}
    assert sum(row["sessions"] for row in page["reasons"] if row["metric"] == "tool_success_rate") == 2
    assert {row["verdict"] for row in page["reasons"]} == {"failed"}
    called: dict[str, set[str]] = {}
    for session_id, name in store.query("SELECT session_id, tool_name FROM tool_interactions"):
        called.setdefault(name, set()).add(session_id)
    assert {row["name"]: (row["sessions"], row["failed"]) for row in page["tools"]} == {
        name: (len(sessions), len(sessions & failed)) for name, sessions in called.items()
    }
    assert next((row["name"], row["sessions"], row["failed"]) for row in page["agents"]) == (
        "customer_service",
        4,
        2,
    )


def test_reasons_that_differ_in_values_alone_are_one_group_with_a_text_that_finds_its_sessions(
    tmp_path: Path,
) -> None:
    def asked(number: int) -> dict[str, Any]:
        call = {"tool_name": "look_up", "input_arguments": {"id": f"A{number}"}}
        return {"id": f"q{number}", "user_inputs": [f"{number}?"], "reference_tool_interactions": [call]}

    write_golden(tmp_path / "golden.json", *map(asked, range(4)))
    sessions = [(f"s{n}", [Said(f"{n}?", calls=[Call("look_up", {"id": f"B{n}"})])]) for n in range(3)]
    spans = write_calls(tmp_path / "spans.jsonl", [*sessions, ("s3", [Said("3?")])])
    database = spangrade.open(tmp_path / "s.duckdb")
    database.import_files(spans)
    run = database.grade(tmp_path / "golden.json")
    with Store.open(tmp_path / "s.duckdb", read_only=True) as store:
        page = run_page(store, run.run_id)
    assert page is not None
    assert [(row["reason"], row["sessions"], row["text"]) for row in page["reasons"]] == [
        ("look_up(id): expected …, was …", 3, 'look_up(id): expected "A'),
        ('missing: look_up{"id":"A3"}', 1, 'missing: look_up{"id":"A3"}'),
    ]


def test_inconclusive_sessions_are_grouped_by_what_is_missing(many: Store) -> None:
    page = run_page(many, "run-1")
    assert page is not None
    reason = "state_management_fidelity: no state is recorded; set_state records it"
    assert [(row["reason"], row["sessions"]) for row in page["inconclusive"]] == [
        (reason, page["verdicts"]["inconclusive"])
    ]


def test_percentiles_are_by_nearest_rank_and_unknown_values_are_counted(many: Store) -> None:
    page = run_page(many, "run-2")
    assert page is not None
    rows = many.query(
        "SELECT cost_usd, total_s FROM sessions JOIN verdicts USING (session_id) WHERE run_id = 'run-2'"
    )
    for row, number in zip(page["usage"], (0, 1), strict=True):
        values = sorted(one[number] for one in rows if one[number] is not None)
        expected = {f"p{share}": nearest_rank(values, share / 100) for share in (50, 90, 95, 99)}
        assert {name: row[name] for name in expected} == expected
        assert (row["known"], row["unknown"]) == (len(values), len(rows) - len(values))
        assert (row["smallest"], row["largest"]) == (values[0], values[-1])


def test_a_distribution_counts_every_score_once(many: Store) -> None:
    page = run_page(many, "run-1")
    assert page is not None
    for metric in page["metrics"]:
        bars = metric["chart"].bars
        assert sum(bar.number for bar in bars) == metric["scores"]
        assert len(bars) <= BARS
        values = [
            value
            for (value,) in many.query(
                "SELECT value FROM scores WHERE run_id = 'run-1' AND metric = $metric AND value IS NOT NULL",
                {"metric": metric["metric"]},
            )
        ]
        last = max(bar.high for bar in bars)
        for bar in bars:
            within = [v for v in values if bar.low <= v and (v < bar.high or (v <= last == bar.high))]
            assert abs(len(within) - bar.number) <= 1  # a value at a bound may be rounded to either side


def test_a_run_that_does_not_exist_has_no_page(many: Store) -> None:
    assert run_page(many, "run") is None


def test_trends_count_every_session_once_by_day_and_version(many: Store) -> None:
    values = trends_page(many, {"since": "2025-01-01"})
    expected = {
        (datetime.combine(day, time.min), version): (sessions, with_errors, p95)
        for day, version, sessions, with_errors, p95 in many.query(
            "SELECT started_at::DATE, agent_version, count(*), count(*) FILTER (errors > 0), "
            "quantile_disc(total_s, 0.95) FROM sessions GROUP BY ALL"
        )
    }
    shown = {(r["slot"], r["series"]): (r["sessions"], r["with_errors"], r["p95_s"]) for r in values["rows"]}
    assert shown == expected
    assert sum(row["sessions"] for row in values["rows"]) == 3_000
    assert sum(row["graded"] for row in values["rows"]) == 3_000
    assert [one["title"] for one in values["drawn"]["charts"]] == [
        "Sessions per day",
        "Share of the graded sessions that passed",
        "Mean cost per session",
        "Cost per day",
        "Tokens per day",
        "Latency, 95th percentile",
        "Share of the sessions with errors",
    ]


def test_trends_show_the_last_90_days_unless_others_are_asked_for(many: Store) -> None:
    days = {row["slot"] for row in trends_page(many, {})["rows"]}
    assert (min(days), max(days)) == (datetime(2026, 1, 1), datetime(2026, 3, 31))
    page = trends_page(many, {"since": "2026-01-03", "until": "2026-01-06"})
    assert {row["slot"] for row in page["rows"]} == {datetime(2026, 1, day) for day in (3, 4, 5)}
    with pytest.raises(InputError, match="is not a time"):
        trends_page(many, {"since": "soon"})


def test_one_value_is_one_bar_and_a_threshold_is_where_it_is() -> None:
    one = distribution({0: 5}, 3, 3, 20, 3)
    assert ([bar.number for bar in one.bars], one.threshold) == ([5], None)
    assert distribution({0: 1, 19: 9}, 0, 1, 20, 0.5).threshold == 252.0


@pytest.mark.parametrize("series", ["version", "prompt", "agent", "model", "environment"])
def test_series_count_each_session_once_and_lead_to_their_sessions(many: Store, series: str) -> None:
    values = trends_page(many, {"series": series, "since": "2025-01-01"})
    assert sum(row["sessions"] for row in values["rows"]) == 3_000
    row = (
        next(row for row in values["rows"] if row["series"] and "," not in row["series"])
        if series
        in (
            "version",
            "model",
        )
        else values["rows"][0]
    )
    filters = values["filters_of"](row["series"], row["at"])
    if series in ("version", "model"):
        assert count_page(many, filters) == row["sessions"]
    else:
        assert count_page(many, filters) >= row["sessions"]


def test_a_series_that_there_is_not_is_an_error(many: Store) -> None:
    with pytest.raises(InputError, match="series: 'size'; expected one of version, prompt, agent"):
        trends_page(many, {"series": "size"})


def test_a_version_that_is_not_the_first_is_marked_on_its_first_day(many: Store) -> None:
    first = dict(many.query("SELECT agent_version, min(started_at)::DATE FROM sessions GROUP BY ALL"))
    marks = trends_page(many, {"since": "2025-01-01"})["drawn"]["marks"]
    marked = [version for one in marks.values() for version in one.partition("version ")[2].split(", ")]
    assert len(marked) == len(first) - 1
