"""Grading without a dataset: which stored sessions, by which metrics, and with which verdicts."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from command_line import Spangrade
from made_once import copy_of_sample
from paths import SAMPLE

import spangrade as public
from spangrade import InputError, Selection
from spangrade.evaluator.grading.selection import is_sampled

ALL = {f"conversation-{number}" for number in range(1, 5)}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> public.Database:
    opened = public.open(copy_of_sample(tmp_path_factory.mktemp("stored") / "s.duckdb"))
    opened.score("conversation-1", {"thumbs": 1}, by="ann")
    opened.score("conversation-1", {"thumbs": 0}, turn=1, by="ben")
    opened.score("conversation-2", {"thumbs": 1, "tone": "kind"}, by="ann")
    return opened


@public.metric(unit="steps")
def steps(session: public.Session) -> float:
    """Number of steps."""
    return len(session.trajectory)


def graded(db: public.Database, **options: object) -> set[str]:
    run = db.grade(gates="cost<=1", select=public.Selection(**options))  # type: ignore[arg-type]
    return {session.session_id or "" for session in run.sessions}


@pytest.mark.exhaustive
def test_gates_alone_judge_all_stored_sessions(db: public.Database, spangrade: Spangrade) -> None:
    run = db.grade(gates=["tool_success_rate>=0.9"])
    assert (run.dataset, str(run), run.exit_code) == ("", "4 sessions: 2 passed, 2 failed", 1)
    run = db.grade(gates=["cost<=1", "tools:recall>=0.5"])
    assert (str(run), run.exit_code) == (
        "4 sessions: 4 passed; 1 gate applies to no session: tools:recall",
        4,
    )
    done = spangrade("grade", "--db", db.path, "--metric", "tool_success_rate>=0.9", "--format", "json")
    shown = json.loads("\n".join(done.out))
    assert (done.code, shown["verdicts"]["failed"], shown["unanswered_questions"]) == (1, 2, [])


def test_a_requested_metric_without_a_threshold_is_measured(db: public.Database) -> None:
    run = db.grade(gates=[steps])
    assert len(run.metrics["steps"].values) == 4
    assert (str(run), run.exit_code) == ("4 sessions: 4 unmatched", 0)
    assert {session.reason for session in run.sessions} == {"no gate applies to it"}


def test_sessions_are_chosen_by_time_agent_model_and_id(db: public.Database) -> None:
    times = {row["session_id"]: row["started_at"] for row in db.list_sessions().rows()}
    second = sorted(times.values())[1].replace(microsecond=0)  # times are in whole seconds
    assert graded(db, since=second) == {name for name, start in times.items() if start >= second}
    assert graded(db, until=second) == {name for name, start in times.items() if start < second}
    agents = {row["session_id"]: row["agents"] for row in db.list_sessions().rows()}
    agent = next(names[-1] for names in agents.values() if len(names) > 1)
    assert graded(db, agent=agent) == {name for name, names in agents.items() if agent in names}
    assert graded(db, model="gemini-2.5-flash") == ALL
    assert graded(db, model="it's another") == set()
    assert graded(db, sessions="conversation-3") == {"conversation-3"}
    with pytest.raises(InputError, match="no session 'nobody' to grade"):
        graded(db, sessions="nobody")


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("turns >= 1", ALL),
        ("scores['thumbs'] < 1", {"conversation-1"}),
        ("scores['thumbs'] IS NULL", {"conversation-3", "conversation-4"}),
        ("session_id IN (SELECT session_id FROM scores WHERE label = 'kind')", {"conversation-2"}),
        ("session_id = 'conversation-4' -- the last", {"conversation-4"}),
        ("verdict = 'never'", set()),
    ],
)
@pytest.mark.short_form("condition", 2)
def test_a_condition_in_sql_chooses_sessions(db: public.Database, condition: str, chosen: set[str]) -> None:
    assert graded(db, where=condition) == chosen


@pytest.mark.parametrize(
    "condition",
    [
        "true) UNION (SELECT 'x'",
        "true; DROP TABLE spans",
        "turns > (DELETE FROM spans)",
        "exists (FROM read_text('/etc/hostname'))",
        "exists (FROM '/etc/hostname')",
        "exists (FROM read_csv('/etc/passwd'))",
        "exists (FROM glob('/etc/*'))",
        "turns > 1, true",
        "no_such_column = 1",
        "",
    ],
)
@pytest.mark.short_form("condition", 2)
def test_a_condition_cannot_write_or_read_a_file(db: public.Database, condition: str) -> None:
    content = db.path.read_bytes()
    with pytest.raises(InputError, match=r"^select.where: "):
        graded(db, where=condition)
    with pytest.raises(InputError, match=r"^select.where: "):
        graded(db, where=f"turns > 0 AND ({condition})" if condition else "()")
    assert db.path.read_bytes() == content


def test_a_sample_is_the_same_each_time_and_a_limit_takes_the_newest(db: public.Database) -> None:
    half = {name for name in ALL if is_sampled(name, 0.5)}
    assert graded(db, sample="50%") == graded(db, sample=0.5) == half
    assert graded(db, sample="100%") == ALL
    newest = db.list_sessions(sort="newest").rows()
    assert graded(db, limit=2) == {row["session_id"] for row in newest[:2]}
    for bad in ("0%", "101%", "half", 2):
        with pytest.raises(InputError, match=r"^select.sample: expected a share"):
            graded(db, sample=bad)


def test_an_age_is_a_time(db: public.Database) -> None:
    assert graded(db, until="2h") == ALL
    assert graded(db, since="2h") == set()
    assert graded(db, since=datetime.now() - timedelta(days=1)) == set()


def test_scores_from_outside_gate(db: public.Database, spangrade: Spangrade) -> None:
    run = db.grade(gates=["thumbs>=1"])
    verdicts = {session.session_id: (session.verdict.value, session.reason) for session in run.sessions}
    nobody = ("inconclusive", "thumbs: nobody gave the session a score thumbs")
    assert verdicts == {
        "conversation-1": ("failed", "thumbs: 0.5, expected >= 1: 1 by ann, 0 by ben"),
        "conversation-2": ("passed", ""),
        "conversation-3": nobody,
        "conversation-4": nobody,
    }
    done = spangrade("grade", "--db", db.path, "--metric", "thumb>=1")
    assert (done.code, done.err) == (2, ['spangrade: metric "thumb" is not known; did you mean "thumbs"?'])


def test_with_a_dataset_scores_from_outside_gate_too(db: public.Database, tmp_path: Path) -> None:
    golden = SAMPLE / "customer_service_golden.json"
    run = db.grade(golden, gates=["thumbs<=1"], select=Selection("conversation-2"), out=tmp_path)
    assert run.sessions[0].verdict == "passed"
    assert "score.thumbs" in (tmp_path / "evaluation_results.csv").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "--metric: grade by what? Expected a dataset, metrics, or gates in spangrade.toml"),
        (
            ("--metric", "cost<=1", "--group-by", "metadata.x"),
            "--group-by: it is about golden questions: give a dataset",
        ),
        (
            ("--metric", "cost<=1", "--sample", "0"),
            "--sample: expected a share above 0 and up to 100%",
        ),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    db: public.Database, spangrade: Spangrade, options: tuple[str, ...], problem: str
) -> None:
    done = spangrade("grade", "--db", db.path, *options)
    assert (done.code, len(done.err)) == (2, 1)
    assert problem in done.err[0]


def test_the_settings_sample_only_without_a_dataset(
    db: public.Database, spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "spangrade.toml"
    file.write_text('gates = ["cost<=1"]\n[sampling]\nlimit = 1\n')
    monkeypatch.setenv("SPANGRADE_CONFIG", str(file))
    assert spangrade("grade", "--db", db.path).out[0] == "1 session: 1 passed"
    assert spangrade("grade", "--db", db.path, "--limit", "3").out[0] == "3 sessions: 3 passed"
    assert spangrade("grade", SAMPLE, "--db", db.path).out[0] == "4 sessions: 4 passed"


def test_a_score_from_outside_without_a_threshold_is_in_the_reports(
    db: public.Database, tmp_path: Path
) -> None:
    run = db.grade(gates=["thumbs", "cost<=1"], select=Selection("conversation-1"), out=tmp_path)
    assert str(run) == "1 session: 1 passed"
    with (tmp_path / "evaluation_results.csv").open(newline="") as table:
        (row,) = csv.DictReader(table)
    assert (row["score.thumbs"], row["passed.thumbs"], row["verdict"]) == ("0.5", "", "passed")
    assert json.loads((tmp_path / "sessions.jsonl").read_text())["metrics"]["thumbs"]["value"] == 0.5
