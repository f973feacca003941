"""A grade by several processes: the same as by one, whatever decides in it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks.shapes import asked

import spangrade

METRIC = '''
from spangrade import metric

@metric(threshold=1, unit="number")
def is_even(session):
    """Whether the number of the session is even."""
    return int(session.session_id[1:]) % 2 == 0
'''
QUERY = """-- name: length
SELECT session_id, length(session_id) AS value FROM sessions
"""
RUN_ID = "of the run"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "spans.jsonl").write_text("\n".join(asked("apart", 1_100).lines), encoding="utf-8")
    spangrade.open(folder / "s.duckdb").import_files(folder / "spans.jsonl")
    (folder / "even.py").write_text(METRIC, encoding="utf-8")
    (folder / "length.sql").write_text(QUERY, encoding="utf-8")
    return folder


def graded(recorded: Path, questions: Any, workers: int, out: Path, **asked_for: Any) -> dict[str, Any]:
    """Return all that a grade says and writes, without the name of the run, and without report.html."""
    with pytest.MonkeyPatch.context() as patch:  # that is made of what is stored, and takes most of the time
        patch.setattr("spangrade.evaluator.reports.html.report.write_report", lambda *arguments: None)
        run = spangrade.open(recorded / "s.duckdb", workers=workers).grade(questions, out=out, **asked_for)
    return {
        "run": run.to_json(),
        "verdicts": run.sessions,
        "scores": [tuple(row.values()) for row in run.scores],
        "lines": (out / "sessions.jsonl").read_bytes(),
        "csv": (out / "evaluation_results.csv").read_text(encoding="utf-8").replace(run.run_id, RUN_ID),
    }


@pytest.mark.exhaustive
def test_processes_grade_as_one_does(recorded: Path, tmp_path: Path) -> None:
    questions = [
        question | {"metadata": {"topic": "odd" if number % 3 else "third"}}
        for number, question in enumerate(asked("apart", 1_150).questions)
    ]
    spec = spangrade.GradeSpec(
        questions,
        spangrade.Gates(metrics_files=[recorded / "even.py", recorded / "length.sql"]),
        group_by="metadata.topic",
    )
    one, three = (graded(recorded, spec, workers, tmp_path / str(workers)) for workers in (1, 3))
    assert three == one
    assert (len(one["verdicts"]), one["run"]["sessions"]) == (1_150, 1_100)
    assert one["run"]["verdicts"]["passed"] == 550


@pytest.mark.exhaustive
def test_questions_that_expect_the_same_share_their_sessions_among_processes(tmp_path: Path) -> None:
    questions, lines = asked("identical", 1_100)
    (tmp_path / "spans.jsonl").write_text("\n".join(lines), encoding="utf-8")
    spangrade.open(tmp_path / "s.duckdb").import_files(tmp_path / "spans.jsonl")
    one, two = (graded(tmp_path, questions[:2], workers, tmp_path / str(workers)) for workers in (1, 2))
    assert two == one
    assert [one.question_id for one in two["verdicts"][:4]] == ["q0", "q1", "q0", "q1"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("with_questions", [False, True])
def test_processes_lint_as_one_does(recorded: Path, with_questions: bool) -> None:
    dataset = spangrade.GradeSpec(asked("apart", 1_150).questions) if with_questions else None
    one, two = (
        spangrade.open(recorded / "s.duckdb", workers=workers).lint(dataset=dataset) for workers in (1, 2)
    )
    assert two == one
    found = Counter((finding.code, finding.session_id is None) for finding in one)
    assert found["no_model_calls", False] == 1_100
    assert found["unanswered", True] == (50 if with_questions else 0)


@pytest.mark.exhaustive
def test_processes_audit_as_one_does(recorded: Path, tmp_path: Path) -> None:
    questions = asked("apart", 1_100).questions
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": questions[:600]}), encoding="utf-8")
    written = {}
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        spangrade.open(recorded / "s.duckdb", workers=workers).audit(
            tmp_path / "golden.json", mutants=2, out=folder
        )
        written[workers] = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    assert written[2] == written[1]
    assert '"left_out":' in written[1]["audit.json"]
