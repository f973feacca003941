"""`spangrade trend`: which sessions and grades count, by what, on real databases."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import command_line
import many_sessions
import pytest
import scipy
from command_line import Spangrade
from made_once import copy_folder
from otlp_sessions import START_NS, Call, Said, write_golden, write_sessions

import spangrade as package
from spangrade.evaluator.statistics.trends.trend import By, Point, Trend

DAY_NS = 86_400_000_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    questions = [
        {
            "id": f"q{n}",
            "user_inputs": [f"Refund order {n}"],
            "reference_tool_interactions": [{"tool_name": "find_order"}, {"tool_name": "refund"}],
        }
        for n in range(4)
    ]
    write_golden(folder / "golden.json", *questions)
    for day, missing in ((0, ()), (1, (0, 4, 5))):  # both sessions of q0, one of q1
        sessions = [
            (f"day{day}-{n}", [Said(f"Refund order {n % 4}", calls=_calls(refund=n not in missing))])
            for n in range(8)
        ]
        write_sessions(folder / f"day{day}.jsonl", sessions, start_ns=START_NS + day * DAY_NS)
    command_line.spangrade("import", "day0.jsonl", "day1.jsonl", cwd=folder)
    command_line.spangrade("grade", "golden.json", "--metric", "tools:recall", cwd=folder)
    return folder


@pytest.fixture
def graded(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two days, each with two sessions of 4 questions: on the first all pass, on the second 3 of 8 fail."""
    copy_folder(made, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _calls(*, refund: bool) -> list[Call]:
    return [Call("find_order"), *([Call("refund")] if refund else [])]


def as_json(spangrade: Spangrade, *arguments: str) -> Any:
    done = spangrade("trend", *arguments, "--format", "json")
    assert (done.code, done.err) == (0, [])
    return json.loads("\n".join(done.out))


def test_sessions_of_a_question_count_as_one_value(graded: Path, spangrade: Spangrade) -> None:
    low, high = scipy.stats.binomtest(4, 4).proportion_ci(0.95, method="wilson")
    share = 5 / 8  # of q0 to q3: 0, ½, 1, 1
    z2 = float(scipy.stats.norm.ppf(0.975)) ** 2
    center, half = (share + z2 / 8) / (1 + z2 / 4), math.sqrt(z2 * share * (1 - share) / 4 + z2**2 / 64)
    second = [center - half / (1 + z2 / 4), center + half / (1 + z2 / 4)]
    value = as_json(spangrade, "passed")
    points = value.pop("points")
    assert value == {
        "metric": "passed", "by": "day", "unit": "share", "higher_is_better": True
    }  # fmt: skip
    assert [point.pop("low") for point in points] == pytest.approx([low, second[0]])
    assert [point.pop("high") for point in points] == pytest.approx([high, second[1]])
    assert points == [
        {"key": "2026-01-01", "sessions": 8, "unknown": 0, "questions": 4, "mean": 1.0},
        {"key": "2026-01-02", "sessions": 8, "unknown": 0, "questions": 4, "mean": share},
    ]


def test_the_latest_run_that_measured_a_metric_counts(graded: Path, spangrade: Spangrade) -> None:
    before = as_json(spangrade, "tools:recall")["points"]
    assert [point["mean"] for point in before] == [1.0, (0.5 + 0.75 + 1 + 1) / 4]
    passed = as_json(spangrade, "passed")["points"]
    assert spangrade("grade", "--metric", "token_usage<=1", "--session", "day0-0").code == 1  # it fails
    assert as_json(spangrade, "tools:recall")["points"] == before
    assert as_json(spangrade, "passed")["points"] == passed  # the verdict by its question stays


def test_the_times_choose_sessions_and_every_session_has_tokens(graded: Path, spangrade: Spangrade) -> None:
    points = as_json(spangrade, "tokens", "--since", "2026-01-02", "--where", "until:2026-01-03")["points"]
    assert points == [
        {
            "key": "2026-01-02", "sessions": 8, "unknown": 0, "questions": 4,
            "mean": pytest.approx(15.0), "low": None, "high": None,
        }
    ]  # fmt: skip
    assert as_json(spangrade, "tokens", "--by", "version")["points"][0]["key"] is None


def test_scores_from_outside_count_where_no_run_measured_the_metric(
    graded: Path, spangrade: Spangrade
) -> None:
    spangrade("label", "day0-0", "--score", "thumbs=1", "--by", "kim")
    spangrade("label", "day0-0", "--score", "thumbs=0", "--by", "lee")
    spangrade("label", "day1-3", "--score", "thumbs=1", "--by", "lee")
    points = as_json(spangrade, "thumbs")["points"]
    assert [(p["key"], p["mean"], p["low"]) for p in points] == [
        ("2026-01-01", 0.5, None),
        ("2026-01-02", 1.0, None),
    ]


def test_the_terminal_shows_a_chart(graded: Path, spangrade: Spangrade) -> None:
    done = spangrade("trend", "passed")
    assert done.code == 0
    head, columns, first, second = done.out
    assert head == "passed (share) by day"
    assert columns.split() == ["day", "sessions", "unknown", "mean", "95%", "interval", "0.2194", "1"]
    assert first.split()[:4] == ["2026-01-01", "8", "0", "1"]
    assert (first[-1], second.split()[-1][0], second.count("●")) == ("●", "─", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("recall",),
            'no stored session has a value of "recall"; there are passed, cost, latency, tokens,',
        ),
        (("passed", "--since", "soon"), "'soon' is not a time"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    arguments: tuple[str, ...], message: str, graded: Path, spangrade: Spangrade
) -> None:
    done = spangrade("trend", *arguments)
    assert done.code == 2
    (line,) = done.err
    assert message in line


def test_versions_and_models_have_the_means_that_python_computes(tmp_path: Path) -> None:
    db = tmp_path / "many.duckdb"
    many_sessions.write_sessions(db, 600)
    opened = package.open(db)
    rows = opened.list_sessions().rows()
    by_version: dict[str, list[float]] = defaultdict(list)
    by_model: dict[str, list[float]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["started_at"]):
        by_version[row["agent_version"]].append(row["total_s"])
        by_model[row["models"][0]].append(row["verdict"])
    assert list(by_version) == [point.key for point in opened.trend("latency", by="version").points]
    found = opened.trend("passed", by="model")
    assert isinstance(found, Trend)
    assert found.by is By.MODEL
    for point in found.points:
        assert isinstance(point, Point)
        verdicts = by_model[str(point.key)]
        decided = [verdict for verdict in verdicts if verdict in ("passed", "failed")]
        assert (point.sessions, point.unknown) == (len(decided), len(verdicts) - len(decided))
    latency = {point.key: point for point in opened.trend("latency", by="version").points}
    for version, seconds in by_version.items():
        known = [value for value in seconds if value is not None]
        assert latency[version].sessions == len(known)
    costs = opened.trend("cost", by="model", until="2026-01-10").points
    assert all((point.low, point.high) == (None, None) and point.mean for point in costs)
    assert fmean(point.sessions for point in costs) > 10
