"""Which sessions are graded: all, unless an option chooses."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import question, session
from paths import SAMPLE

import spangrade
from spangrade import InputError
from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.grading.metadata import parse_where
from spangrade.evaluator.grading.selection import sessions_of_questions

DATASET = GoldenDataset(golden_questions=(question("a", id="qa"), question("b", id="qb")))
SESSIONS = [
    session([(text, ())], session_id=name, start_ns=start_ns)
    for name, text, start_ns in (
        ("old", "a", 10),
        ("new", "a", 20),
        ("other", "b", 15),
        ("stray", "c", 5),
        ("undated", "d", None),
    )
]


def chosen(*, latest: bool = False, where: str | None = None, dataset: GoldenDataset = DATASET) -> set[str]:
    questions = None if where is None else {q.id for q in parse_where(where).chosen(dataset).golden_questions}
    return sessions_of_questions(SESSIONS, dataset, {}, questions, latest=latest)


def test_of_the_sessions_of_a_question_the_latest_is_chosen() -> None:
    assert chosen() == {"old", "new", "other", "stray", "undated"}
    assert chosen(latest=True) == {"new", "other", "stray", "undated"}


def test_of_questions_that_expect_the_same_as_many_of_the_latest_sessions_are_graded() -> None:
    dataset = GoldenDataset(golden_questions=(question("a", id="qa"), question("a", id="qb")))
    sessions = [session([("a", ())], session_id=str(start), start_ns=start) for start in (3, 1, 2)]
    assert sessions_of_questions(sessions, dataset, {}, None, latest=True) == {"2", "3"}


def test_conditions_on_metadata_choose_the_sessions_that_may_answer_a_question() -> None:
    dataset = GoldenDataset(
        golden_questions=tuple(
            question(text, id=name).model_copy(update={"metadata": {"topic": topic}})
            for text, name, topic in (("a", "qa", "x"), ("b", "qb", "y"), ("b", "qc", "z"))
        )
    )
    assert chosen(where="metadata.topic = x", dataset=dataset) == {"old", "new"}
    assert chosen(where="metadata.topic = z", dataset=dataset) == {"other"}


def test_a_run_grades_the_sessions_that_are_chosen(tmp_path: Path) -> None:
    db = spangrade.open(tmp_path / "s.duckdb")
    db.import_files(SAMPLE / "spans.otlp.jsonl")
    golden = SAMPLE / "customer_service_golden.json"

    def graded(**options: object) -> list[str]:
        return [
            one.session_id
            for one in db.grade(golden, select=spangrade.Selection(**options)).sessions
            if one.session_id
        ]  # type: ignore[arg-type]

    assert graded(sessions="conversation-2") == ["conversation-2"]
    assert len(graded(latest_per_question=True)) == 4
    assert graded(since="2200-01-01") == graded(until="1970-01-02") == []
    with pytest.raises(InputError, match="no session 'conversation-9' to grade"):
        graded(sessions=["conversation-2", "conversation-9"])
