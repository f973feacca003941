"""The public API: what each method returns for the sample dataset, and that no result holds the file."""

from __future__ import annotations

import inspect
import json
import logging
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from made_once import copy_of
from paths import SAMPLE

import spangrade
from spangrade import Database, InputError, Score, Session, StoreError
from spangrade.evaluator.database import GoldenAddition, Imported
from spangrade.evaluator.derive.sync.intake import NotRead
from spangrade.evaluator.grading.run import SessionVerdict
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.maintenance.delete import Deleted
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store import Store

SPANS = SAMPLE / "spans.otlp.jsonl"
GOLDEN = SAMPLE / "customer_service_golden.json"
IDS = [f"conversation-{number}" for number in (1, 2, 3, 4)]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("api") / "shop.duckdb"
    spangrade.open(path).import_files([SPANS])
    return path


@pytest.fixture
def db(imported: Path, tmp_path: Path) -> Database:
    copy_of(imported, tmp_path / "shop.duckdb")
    return spangrade.open(tmp_path / "shop.duckdb")


def no_file_is_held(db: Database) -> bool:
    """Return whether a writer can open the file at once."""
    with Store.open(db.path) as store:
        store.add([LogRecord(None, None, 1, "written")])
    return True


def test_importing_counts_what_is_new_and_what_was_there(tmp_path: Path) -> None:
    db = spangrade.open(tmp_path / "new.duckdb")
    path = str(tmp_path / "new.duckdb")
    read = NotRead(all_model_calls=17)
    assert db.import_files(SPANS) == Imported(path, 44, 0, 0, 4, 4, 0, 0, not_read=read)
    assert db.import_files([SPANS]) == Imported(path, 0, 0, 44, 4, 0, 0, 0, not_read=read)


def test_problems_are_reported_and_by_default_logged(
    db: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(SPANS.read_text().splitlines()[0] + "\n{oops\n")
    problems: list[Problem] = []
    result = spangrade.open(db.path, on_problem=problems.append).import_files([bad, tmp_path / "none.json"])
    assert (result.duplicates, result.records_lost, result.files_lost, result.exit_code) == (8, 1, 1, 2)
    assert [problem.where for problem in problems] == [f"{bad}:2", str(tmp_path / "none.json")]
    assert problems[1].message == "no such file"
    with caplog.at_level(logging.WARNING, "spangrade"):
        db.import_files([bad])
    assert [record.getMessage() for record in caplog.records] == [f"{bad}:2: {problems[0].message}"]
    with pytest.raises(InputError, match="nothing imported"):
        db.import_files([bad], strict=True)


def test_grading_returns_verdicts_and_scores_and_saves_them(db: Database) -> None:
    run = db.grade(GOLDEN, gates=["tool_success_rate>=1"])
    assert (run.exit_code, run.verdicts) == (
        1,
        {"passed": 2, "failed": 2, "inconclusive": 0, "broken": 0, "unmatched": 0},
    )
    assert run.sessions[:2] == [
        SessionVerdict("conversation-1", "order_status", Verdict.PASSED, ""),
        SessionVerdict(
            "conversation-2",
            "unknown_order",
            Verdict.FAILED,
            "tool_success_rate: 0.5, expected >= 1: failed: look_up_order",
        ),
    ]
    assert run.to_json()["metrics"]["tool_success_rate"]["pass_rate"] == 0.5
    assert str(run) == "4 sessions: 2 passed, 2 failed"
    saved = db.sql(
        "SELECT * EXCLUDE run_id FROM scores SEMI JOIN runs USING (run_id) ORDER BY session_id, metric"
    )
    external = {"source": "run", "author": None, "turn": None, "label": None, "scored_at": None}
    scores = sorted(run.scores, key=lambda row: (row["session_id"], row["metric"]))
    assert saved.rows() == [score | external for score in scores]
    assert db.sql("SELECT run_id, dataset, metrics FROM runs").rows() == [
        {"run_id": run.run_id, "dataset": str(GOLDEN), "metrics": ["tool_success_rate>=1"]}
    ]


def test_a_metric_of_ones_own_is_given_as_it_is(db: Database) -> None:
    @spangrade.metric(threshold=3, higher_is_better=False, unit="turns")
    def turns(session: Session) -> Score:
        return Score(len(session.turns), reason=f"{len(session.turns)} turns")

    run = db.grade(GOLDEN, gates=["cost", turns])
    assert [row["value"] for row in run.scores if row["metric"] == "turns"] == [
        float(len(session.turns)) for session in db.sessions()
    ]
    assert db.sql("SELECT metrics FROM runs").rows() == [{"metrics": ["cost", "turns<=3"]}]
    with pytest.raises(InputError, match='metric "turns" is requested twice'):
        db.grade(GOLDEN, gates=[turns, spangrade.metric()(turns.function)])


def test_sessions_are_read_whole_or_only_those_that_failed(db: Database) -> None:
    assert [session.session_id for session in db.sessions()] == IDS
    assert list(db.sessions(failed=True)) == []
    db.grade(GOLDEN, gates=["tool_success_rate>=1"])
    assert list(db.sessions(failed=True)) == [db.session(IDS[1]), db.session(IDS[2])]
    db.grade(GOLDEN)  # the latest run counts
    assert list(db.sessions(failed=True)) == []


def test_a_session_is_named_by_its_id_or_the_beginning_of_it(db: Database) -> None:
    calls = db.session("conversation-1").tool_interactions
    assert [(call.tool_name, call.input_arguments) for call in calls] == [
        ("look_up_order", {"order_id": "A-1003"})
    ]
    with pytest.raises(InputError, match="may be conversation-1, conversation-2 or others"):
        db.session("conv")
    with pytest.raises(InputError, match='no session "x"'):
        db.session("x")


def test_rows_convert_to_frames_and_outlive_the_file(db: Database) -> None:
    rows = db.sql("SELECT session_id, turns, agents, handoffs FROM sessions ORDER BY 1 LIMIT 1")
    db.path.unlink()
    agents, plain = ["customer_service"], ("conversation-1", 2)
    assert (rows.columns, len(rows)) == (["session_id", "turns", "agents", "handoffs"], 1)
    assert rows.rows() == [dict(zip(rows.columns, (*plain, agents, []), strict=True))]
    assert rows.to_polars().to_dicts() == rows.to_arrow().to_pylist() == rows.rows()
    frame = rows.to_pandas()
    assert list(frame.columns) == rows.columns
    assert (frame["session_id"][0], frame["turns"][0], list(frame["agents"][0])) == (*plain, agents)


@pytest.mark.parametrize(
    "query", ["SELECT 1 AS a, 2 AS a, 3 AS a_2 WHERE false", "SELECT 1 AS a, 2 AS a, 3 AS a_2"]
)
def test_columns_of_one_name_are_numbered(query: str, db: Database) -> None:
    rows = db.sql(query)
    assert rows.columns == ["a", "a_2", "a_2_2"]
    assert list(rows.to_pandas().columns) == rows.columns


@pytest.mark.parametrize(
    ("method", "package"), [("to_pandas", "pandas"), ("to_polars", "polars"), ("to_arrow", "pyarrow")]
)
def test_a_package_that_is_missing_is_named(
    method: str, package: str, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = db.sql("SELECT 1")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"^{method}\(\) needs {package}: pip install {package}$"):
        getattr(rows, method)()


def test_a_query_that_breaks_on_the_way_is_an_error(db: Database) -> None:
    query = "SELECT (CASE WHEN range = 9999 THEN 'x' ELSE '1' END)::INTEGER FROM range(10000)"
    with pytest.raises(InputError, match=r"^SQL: Conversion Error: Could not convert string … to INT32"):
        db.sql(query)


def test_a_query_sees_no_variable_of_python(db: Database) -> None:
    with pytest.raises(InputError, match=r"^SQL: Catalog Error"):
        db.sql("FROM connection")


def test_nothing_that_is_returned_holds_the_file(db: Database) -> None:
    sessions = db.sessions()
    kept: list[Any] = [
        next(sessions),
        db.session(IDS[0]),
        db.sql("FROM spans"),
        db.lint(),
        db.grade(GOLDEN),
        db.derive(),
    ]
    assert no_file_is_held(db)
    assert len(kept) == 6
    assert [session.session_id for session in sessions] == IDS[1:]


def test_deriving_counts_what_is_new_or_everything(db: Database) -> None:
    assert db.derive() == 0
    with Store.open(db.path) as store:
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "late"}
        store.add([Span("f" * 32, "1" * 16, None, "run", "INTERNAL", 1, 2, attributes=attributes)])
    assert db.derive() == 1
    assert db.derive(all=True) == 5
    with pytest.raises(StoreError, match=r"none\.duckdb: no such database"):
        spangrade.open(db.path.with_name("none.duckdb")).derive()


def test_lint_lists_what_few_recordings_have_only_where_a_metric_that_is_asked_for_needs_it(
    db: Database,
) -> None:
    assert db.lint("conversation-1") == []
    asked = spangrade.GradeSpec(gates=spangrade.Gates(metrics=["cache_efficiency>=0.5"]))
    findings = [(one.code, one.metrics) for one in db.lint("conversation-1", dataset=asked)]
    assert [one for one in findings if one[0] == "no_cached_tokens"] == [
        ("no_cached_tokens", ("cache_efficiency",))
    ]
    assert "no_grounding" not in dict(findings)


def test_sessions_are_deleted_by_id_time_or_user(db: Database) -> None:
    counted = db.delete("conversation-1", dry_run=True)
    assert counted == Deleted(1, counted.spans, 0, 0)
    assert db.delete(before=datetime(2020, 1, 1, tzinfo=UTC)) == Deleted(0, 0, 0, 0)
    assert db.delete(before="2020-01-01", user="nobody") == Deleted(0, 0, 0, 0)
    assert db.delete(["conversation-1"])[:3] == counted[:3]
    assert [session.session_id for session in db.sessions()] == IDS[1:]
    with pytest.raises(InputError, match="delete which sessions"):
        db.delete()


def test_a_session_becomes_a_golden_question(db: Database, tmp_path: Path) -> None:
    golden = tmp_path / "golden.json"
    assert db.add_to_golden("conversation-1", golden) == GoldenAddition(1, [], [])
    (question,) = json.loads(golden.read_text())["golden_questions"]
    assert (question["id"], question["agents_evaluated"]) == ("order_status", ["customer_service"])
    assert db.grade(golden).sessions[0].verdict == "passed"


def test_the_default_database_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPANGRADE_DB", "mine.duckdb")
    assert spangrade.open().path == Path("mine.duckdb")
    monkeypatch.delenv("SPANGRADE_DB")
    assert spangrade.open().path == Path("spangrade.duckdb")


def test_progress_is_reported_by_step(imported: Path, tmp_path: Path) -> None:
    steps: list[str] = []
    spangrade.open(tmp_path / "new.duckdb", on_progress=steps.append).grade(SAMPLE)
    assert steps == ["importing", "deriving sessions", "grading"]


def test_the_metrics_are_listed_with_those_of_files(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from spangrade import Score, metric\n\n@metric()\ndef mine(session): return Score(1)\n"
    )
    names = [metric.name for metric in spangrade.list_metrics([tmp_path / "mine.py"])]
    assert (names[-1], "tools" in names) == ("mine", True)


def test_importing_spangrade_imports_nothing_heavy() -> None:
    heavy = {
        "asyncio",
        "duckdb",
        "google",
        "nanoarrow",
        "opentelemetry",
        "orjson",
        "pydantic",
        "rich",
        "typer",
    }
    done = subprocess.run(
        [sys.executable, "-c", "import spangrade, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert heavy.isdisjoint(name.partition(".")[0] for name in done.stdout.split())


def test_every_public_name_is_there() -> None:
    assert sorted(spangrade.__all__) == spangrade.__all__
    assert all(getattr(spangrade, name) is not None for name in spangrade.__all__)
    assert set(spangrade.__all__) <= set(dir(spangrade))
    with pytest.raises(AttributeError, match="module 'spangrade' has no attribute 'x'"):
        spangrade.x  # noqa: B018


@pytest.mark.exhaustive
def test_a_folder_is_graded_in_one_line_and_its_run_is_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = spangrade.grade(SAMPLE)
    assert (run.passed, run.failures(), run.metrics["tool_usage_accuracy"].mean) == (True, [], 1.0)
    failed = spangrade.grade(SAMPLE, gates="cost<=0", name="cheap")
    assert (failed.passed, [one.session_id for one in failed.failures()]) == (False, IDS)
    with spangrade.open() as db:
        assert ([one.run_id for one in db.runs()], repr(db.runs())) == (
            [run.run_id, failed.run_id],
            "<2 runs>",
        )
        for stored, graded in zip(db.runs(), [run, failed], strict=True):
            assert stored.to_json() == graded.to_json()
            assert (stored.sessions, stored.scores.rows()) == (graded.sessions, graded.scores.rows())
        assert (len(db), bool(db), [session.session_id for session in db]) == (4, True, IDS)
    assert not spangrade.open("none.duckdb").path.exists()


def test_questions_can_be_values(db: Database, tmp_path: Path) -> None:
    questions = json.loads(GOLDEN.read_text())["golden_questions"]
    of_file, of_values = db.grade(GOLDEN), db.grade(questions[:2])
    assert [one for one in of_file.sessions if one.session_id in IDS[:2]] == [
        one for one in of_values.sessions if one.verdict == "passed"
    ]
    assert db.regrade("latest").changes == ()
    with pytest.raises(InputError, match=r"questions in memory: golden_questions\[0\].id: missing"):
        db.grade([{"user_inputs": ["hi"]}])
    with pytest.raises(InputError, match="no other file is changed"):
        db.audit(questions, write=True)


@pytest.mark.exhaustive
def test_a_database_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with spangrade.open(":memory:") as db:
        db.import_files(SPANS)
        path = db.path
        assert (db.grade(GOLDEN).passed, path.exists(), list(db.sql("SELECT 1 AS one"))) == (
            True,
            True,
            [{"one": 1}],
        )
    assert (path.exists(), list(tmp_path.iterdir())) == (False, [])
    assert spangrade.sessions(SPANS) == list(spangrade.sessions([SPANS]))
    assert [one.to_json()["session_id"] for one in spangrade.sessions(SPANS)] == IDS
    assert list(tmp_path.iterdir()) == []


def test_a_public_method_takes_at_most_eight_parameters() -> None:
    functions = [spangrade.open, spangrade.grade, spangrade.sessions]
    functions += [one for name, one in vars(Database).items() if inspect.isfunction(one) and name[0] != "_"]
    parameters = {one.__name__: set(inspect.signature(one).parameters) - {"self"} for one in functions}
    assert len(parameters) > 20
    assert {name: names for name, names in parameters.items() if len(names) > 8} == {}
