"""Grading leaves the database to others while metrics run, and saves all scores of a run or none."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from made_once import copy_folder
from paths import SAMPLE

import spangrade
from spangrade import Database, Metric, Run, Score, Session, StoreError
from spangrade.evaluator.grading import run, selection
from spangrade.tracer.span import Problem, Span
from spangrade.tracer.store import Store

GOLDEN = SAMPLE / "customer_service_golden.json"
IDS = [f"conversation-{number}" for number in (1, 2, 3, 4)]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with a batch for each session."""
    folder = tmp_path_factory.mktemp("imported")
    opened = spangrade.open(folder / "s.duckdb")
    for number, line in enumerate((SAMPLE / "spans.otlp.jsonl").read_text().splitlines()):
        (folder / f"{number}.jsonl").write_text(line)
        opened.import_files([folder / f"{number}.jsonl"])
    return opened.path


@pytest.fixture
def db(imported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """Return a database whose sessions are read one by one."""
    monkeypatch.setattr(selection, "SESSIONS_AT_ONCE", 1)
    copy_folder(imported.parent, tmp_path)
    return spangrade.open(tmp_path / "s.duckdb")


def late_span(session_id: str) -> Span:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session_id}
    return Span("f" * 32, "1" * 16, None, "invoke_agent", "INTERNAL", 1, 2, attributes=attributes)


class Blocking:
    """A metric that waits, in the first session, until it is released."""

    def __init__(self) -> None:
        self.started, self.release = threading.Event(), threading.Event()
        self.graded: list[str] = []

    def metric(self) -> Metric:
        def blocking(session: Session) -> Score:
            self.graded.append(session.session_id)
            self.started.set()
            assert self.release.wait(60)
            return Score(1)

        return spangrade.metric(threshold=1)(blocking)


def grade_while(db: Database, meanwhile: Callable[[], None]) -> tuple[Run, list[str]]:
    """Grade, and do something else while a metric runs; return the run and the sessions in their order."""
    blocking = Blocking()
    with ThreadPoolExecutor(1) as thread:
        running: Future[Run] = thread.submit(db.grade, GOLDEN, gates=[blocking.metric()])
        try:
            assert blocking.started.wait(60)
            meanwhile()
        finally:
            blocking.release.set()
        return running.result(60), blocking.graded


@pytest.mark.exhaustive
def test_others_read_and_write_while_a_metric_runs(db: Database, tmp_path: Path) -> None:
    def meanwhile() -> None:
        command = [sys.executable, "-m", "spangrade"]
        listed = subprocess.run([*command, "sessions", "--db", db.path], capture_output=True, text=True)
        assert (listed.returncode, listed.stderr, listed.stdout.count("conversation-")) == (0, "", 4)
        again = subprocess.run([*command, "import", tmp_path / "0.jsonl", "--db", db.path], check=False)
        assert again.returncode == 0
        with Store.open(db.path) as store:
            store.add([late_span("new")])

    graded, order = grade_while(db, meanwhile)
    assert (graded.exit_code, order) == (0, IDS)
    assert db.derive() == 1  # the new session was not graded, and is still to derive


def test_a_session_that_is_derived_again_meanwhile_is_graded_once(db: Database) -> None:
    def meanwhile() -> None:
        with Store.open(db.path) as store:
            store.add([late_span("conversation-2")])
        assert db.derive() == 1

    _, order = grade_while(db, meanwhile)
    assert order == ["conversation-1", "conversation-3", "conversation-4", "conversation-2"]


@pytest.mark.exhaustive
def test_every_session_is_graded_once_if_all_are_derived_again_meanwhile(db: Database) -> None:
    def meanwhile() -> None:
        assert db.derive(all=True) == 4

    _, order = grade_while(db, meanwhile)
    assert sorted(order) == IDS


def test_a_session_that_is_deleted_meanwhile_is_reported(db: Database) -> None:
    problems: list[Problem] = []
    reporting = spangrade.open(db.path, on_problem=problems.append)

    def meanwhile() -> None:
        assert db.delete(["conversation-3"]).sessions == 1

    graded, order = grade_while(reporting, meanwhile)
    assert order == ["conversation-1", "conversation-2", "conversation-4"]
    assert problems == [Problem("session conversation-3", "deleted before it was read", dropped=False)]
    assert graded.unanswered_questions == ("discount_beyond_policy",)


def test_a_run_that_is_interrupted_saves_nothing(db: Database) -> None:
    @spangrade.metric()
    def interrupted(session: Session) -> Score:
        if session.session_id == "conversation-3":
            raise KeyboardInterrupt
        return Score(1)

    with pytest.raises(KeyboardInterrupt):
        db.grade(GOLDEN, gates=[interrupted])
    assert db.sql("FROM runs").rows() == db.sql("FROM scores").rows() == []


def test_scores_that_cannot_all_be_saved_are_not_saved(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CHUNK", 1)  # each session's scores are written by a statement of their own
    with Store.open(db.path) as store:
        store.query(
            "CREATE OR REPLACE TABLE scores "
            "(run_id VARCHAR, session_id VARCHAR CHECK (session_id <> 'conversation-3'), "
            "question_id VARCHAR, metric VARCHAR, value DOUBLE, passed BOOLEAN, outcome VARCHAR, "
            "reason VARCHAR, evidence VARCHAR, source VARCHAR, scored_at TIMESTAMPTZ)"
        )
    with pytest.raises(StoreError, match=r"s\.duckdb: cannot save the scores: Constraint Error"):
        db.grade(GOLDEN)
    assert db.sql("SELECT count(*) AS n FROM scores").rows() == [{"n": 0}]
    assert db.sql("FROM runs").rows() == []
