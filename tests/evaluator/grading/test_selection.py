"""Which sessions are graded: all, unless an option chooses."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import question, session
from paths import SAMPLE

import spangrade
from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.grading.metadata import parse_where
from spangrade.evaluator.grading.selection import ALL, Selection
from spangrade.tracer.errors import InputError

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


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (ALL, {"old", "new", "other", "stray", "undated"}),
        (Selection(session_ids=("old", "stray")), {"old", "stray"}),
        (Selection(since_ns=10), {"old", "new", "other", "undated"}),
        (Selection(since_ns=10, until_ns=20), {"old", "other", "undated"}),
        (Selection(latest_per_question=True), {"new", "other", "stray", "undated"}),
        (Selection(until_ns=20, latest_per_question=True), {"old", "other", "stray", "undated"}),
    ],
)
def test_conditions_choose_sessions(selection: Selection, expected: set[str]) -> None:
    assert selection.ids(SESSIONS, DATASET) == expected
    assert selection.ids(SESSIONS[::-1], DATASET) == expected


def test_of_questions_that_expect_the_same_as_many_of_the_latest_sessions_are_graded() -> None:
    dataset = GoldenDataset(golden_questions=(question("a", id="qa"), question("a", id="qb")))
    sessions = [session([("a", ())], session_id=str(start), start_ns=start) for start in (3, 1, 2)]
    assert Selection(latest_per_question=True).ids(sessions, dataset) == {"2", "3"}


def test_conditions_on_metadata_choose_the_sessions_that_may_answer_a_question() -> None:
    dataset = GoldenDataset(
        golden_questions=tuple(
            question(text, id=name).model_copy(update={"metadata": {"topic": topic}})
            for text, name, topic in (("a", "qa", "x"), ("b", "qb", "y"), ("b", "qc", "z"))
        )
    )
    assert Selection(where=parse_where("metadata.topic = x")).ids(SESSIONS, dataset) == {"old", "new"}
    assert Selection(where=parse_where("metadata.topic = z")).ids(SESSIONS, dataset) == {"other"}


def test_a_run_grades_the_sessions_that_are_chosen(tmp_path: Path) -> None:
    db = spangrade.open(tmp_path / "s.duckdb")
    db.import_files(SAMPLE / "spans.otlp.jsonl")
    golden = SAMPLE / "customer_service_golden.json"

    def graded(**options: object) -> list[str]:
        return [one.session_id for one in db.grade(golden, **options).sessions if one.session_id]  # type: ignore[arg-type]

    assert graded(sessions="conversation-2") == ["conversation-2"]
    assert len(graded(latest_per_question=True)) == 4
    assert graded(since="2200-01-01") == graded(until="1970-01-02") == []
    with pytest.raises(InputError, match="no session 'conversation-9' to grade"):
        graded(sessions=["conversation-2", "conversation-9"])
