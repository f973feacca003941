"""Databases outlive releases: one that an earlier version wrote opens, upgrades and grades the same."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from command_line import Spangrade
from paths import FIXTURES, ROOT

DATABASES = sorted((FIXTURES / "databases").glob("*.duckdb.gz"))
VIEWS = ("sessions", "turns", "trajectory", "tool_interactions", "llm_calls", "state_variables", "errors")
SCORES = (
    "SELECT session_id, question_id, metric, value, passed, outcome FROM scores WHERE run_id = ? ORDER BY ALL"
)
# Scores of a run with requested gates that version 0.1.0 did not have: the references of a question gate
# beside the requested gates, a requested gate that needs no reference judges the sessions without a
# question, and a requested metric that is always reported is reported for these too.
# Compare reference_response, which nothing did, and count the calls that no reference expects.
REPLY = {"final_response_match", "response_match", "unexpected_calls"}
ADDED = {
    "tool_usage_accuracy",
    "state_management_fidelity",
    "agent_routing",
    "tool_success_rate",
    "cost",
}


@pytest.fixture(params=DATABASES, ids=lambda path: path.name.removesuffix(".duckdb.gz"))
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a database as an earlier version left it."""
    copy = tmp_path / "earlier.duckdb"
    copy.write_bytes(gzip.decompress(request.param.read_bytes()))
    return copy


def rows(db: Path, query: str, *values: object) -> list[dict[str, Any]]:
    with duckdb.connect(db, read_only=True) as connection:
        cursor = connection.execute(query, values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, map(rounded, row), strict=True)) for row in cursor.fetchall()]


def rounded(cell: object) -> object:
    """Version 0.1.0 added floats in their order; now sums are exact, so that the last digits may differ."""
    return round(cell, 12) if isinstance(cell, float) else cell


def facts(db: Path, view: str, columns: set[str]) -> list[str]:
    """The rows of a view as sorted JSON texts, of these columns alone; JSON columns as their values."""
    found = [{name: json_value(row[name]) for name in columns} for row in rows(db, f"FROM {view}")]
    for row in found:  # an error has the exception's type now, if the status of its span has it too
        for name in {"error", "message"} & row.keys():
            row[name] = row[name] and row[name].removeprefix("RefusalError: ")
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in found)


def json_value(cell: Any) -> Any:
    try:
        return json.loads(cell) if isinstance(cell, str) else cell
    except ValueError:
        return cell


def columns(db: Path, view: str) -> set[str]:
    return {row["column_name"] for row in rows(db, f"DESCRIBE {view}")}


def test_there_is_a_database_of_an_earlier_version() -> None:
    assert DATABASES


def test_its_sessions_are_what_they_were(database: Path, spangrade: Spangrade) -> None:
    known = {view: columns(database, view) for view in VIEWS}
    before = {view: facts(database, view, known[view]) for view in VIEWS}
    assert spangrade("sessions", "--db", database).code == 0
    assert {view: facts(database, view, known[view]) for view in VIEWS} == before
    assert all(before.values())


def test_it_grades_as_it_did_and_keeps_its_scores(
    database: Path, spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    earlier = rows(database, "FROM runs ORDER BY graded_at")
    kept = {run["run_id"]: rows(database, SCORES, run["run_id"]) for run in earlier}
    for run in earlier:
        requested = [option for metric in run["metrics"] for option in ("--metric", metric)]
        expected = kept[run["run_id"]]
        code = int(any(score["passed"] is False for score in expected))
        assert spangrade("grade", run["dataset"], "--db", database, *requested).code == code
        scores = rows(database, SCORES, newest_run(database))
        assert [score for score in scores if score in expected] == expected
        added = {score["metric"] for score in scores if score not in expected}
        assert added <= (REPLY | ADDED if run["metrics"] else REPLY)
    assert {run_id: rows(database, SCORES, run_id) for run_id in kept} == kept
    runs = [run["run_id"] for run in rows(database, "FROM runs ORDER BY graded_at")]
    assert runs[: len(kept)] == list(kept)


def test_reading_upgrades_its_tables(database: Path, spangrade: Spangrade) -> None:
    kept = rows(database, "SELECT run_id, dataset, metrics FROM runs ORDER BY ALL")
    done = spangrade(
        "sql", "SELECT * EXCLUDE graded_at FROM runs ORDER BY ALL", "--db", database, "--format", "json"
    )
    assert (done.code, done.err) == (0, [])
    unknown = ("judge", "judge_calls", "judge_cache_hits", "judge_failures", "judge_input_tokens")
    unknown += ("judge_output_tokens", "judge_cost_usd", "thresholds", "name", "tags", "git_commit")
    unknown += ("git_dirty", "git_branch", "dataset_digest", "prices_version", "price_overrides")
    unknown += ("metrics_files", "without_references", "question_condition", "require_match")
    unknown += ("reply_threshold", "judge_votes", "day")
    assert json.loads("\n".join(done.out)) == [run | dict.fromkeys(unknown) for run in kept]
    assert spangrade("sql", "FROM last_import", "--db", database).code == 0


def newest_run(db: Path) -> str:
    (newest,) = rows(db, "SELECT run_id FROM runs ORDER BY graded_at DESC LIMIT 1")
    return str(newest["run_id"])
