"""Commands over other shapes of sessions than those of one agent: work that grows with their number.

`tests/benchmarks/commands.py` measures the same shapes, larger, in CPU time.
"""

from __future__ import annotations

import math
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks.shapes import asked, conversations
from builders import llm, question, session, tool
from made_once import copy_of_sample
from paths import SAMPLE
from work import lines_executed

import spangrade
from spangrade import GradeSpec
from spangrade.converters.datasets.golden import GoldenQuestion, golden_of
from spangrade.evaluator.apps.audit.proposals import overlapping
from spangrade.evaluator.derive.sync.intake import DEFAULT
from spangrade.evaluator.grading import slices
from spangrade.evaluator.grading.match_questions import QuestionIndex
from spangrade.evaluator.grading.prepare import prepare, sessions_to_grade
from spangrade.evaluator.metrics.columns import sub_agent_trace, trace_summary
from spangrade.evaluator.metrics.judged import responses_match
from spangrade.evaluator.metrics.trajectory import turns_answered
from spangrade.evaluator.session import Session
from spangrade.tracer.store import Store

MAX_EXPONENT = 1.2


def recorded(folder: Path, shape: str, size: int) -> tuple[Path, list[dict[str, Any]]]:
    """Write the spans of a shape; return the file and the golden questions."""
    file = folder / f"{shape}{size}.jsonl"
    conversations_of = {"interleaved": (size // 4, 4), "one session": (1, size // 4)}
    turns = conversations_of.get(shape)
    questions, lines = asked(shape, size) if turns is None else ([], conversations(*turns, 1))
    file.write_text("\n".join(lines), encoding="utf-8")
    return file, questions


@pytest.mark.exhaustive
@pytest.mark.short_form("shape", 3)
@pytest.mark.parametrize("shape", ["apart", "agents", "values", "alike", "identical"])
def test_a_grade_takes_work_by_the_number_of_sessions(shape: str, tmp_path: Path) -> None:
    def work(size: int) -> int:
        file, questions = recorded(tmp_path, shape, size)
        database = spangrade.open(tmp_path / f"{size}.duckdb")
        database.import_files(file)
        return lines_executed(partial(database.grade, questions))

    work(2)  # imports modules
    assert math.log2(work(240) / work(120)) < MAX_EXPONENT


@pytest.mark.exhaustive
@pytest.mark.short_form("shape", 3)
@pytest.mark.parametrize("shape", ["apart", "interleaved", "one session"])
def test_an_import_takes_work_by_the_number_of_spans(shape: str, tmp_path: Path) -> None:
    def work(size: int) -> int:
        file, _ = recorded(tmp_path, shape, size)
        database = spangrade.open(tmp_path / f"{size}.duckdb")
        return lines_executed(partial(database.import_files, file, workers=1))

    work(4)  # imports modules
    assert math.log2(work(80) / work(40)) < MAX_EXPONENT


@pytest.mark.exhaustive
def test_messages_of_a_megabyte_take_as_much_work_as_short_ones(tmp_path: Path) -> None:
    def work(shape: str) -> int:
        file, questions = recorded(tmp_path, shape, 1)
        database = spangrade.open(tmp_path / f"{shape}.duckdb")

        def report() -> None:
            database.import_files(file, workers=1)
            database.grade(questions, out=tmp_path / shape)

        return lines_executed(report)

    work("agents")  # imports modules
    assert work("long") / work("apart") < 1.1


@pytest.mark.exhaustive
def test_an_audit_takes_work_by_the_number_of_turns(tmp_path: Path) -> None:
    def work(turns: int) -> int:
        file = tmp_path / f"{turns}.jsonl"
        file.write_text("\n".join(conversations(1, turns, 0)), encoding="utf-8")
        database = spangrade.open(tmp_path / f"{turns}.duckdb")
        database.import_files(file, workers=1)
        return lines_executed(partial(database.audit, [long_question(turns)]))

    work(2)  # imports modules
    assert math.log2(work(80) / work(40)) < MAX_EXPONENT


def test_questions_take_memory_by_the_number_of_their_turns() -> None:
    def peak(turns: int) -> int:
        dataset = golden_of({"golden_questions": [long_question(turns)]}, "golden.json")
        tracemalloc.start()
        QuestionIndex(dataset)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert math.log2(peak(8_000) / peak(4_000)) < MAX_EXPONENT


@pytest.mark.parametrize(
    "read",
    [
        lambda one, _: trace_summary(one),
        lambda one, _: sub_agent_trace(one),
        lambda one, _: list(overlapping(one)),
        turns_answered.function,
        responses_match.function,
    ],
    ids=["trace_summary", "sub_agent_trace", "overlapping", "turns_answered", "responses_match"],
)
def test_what_is_read_of_a_session_takes_work_by_the_number_of_its_turns(
    read: Callable[[Session, GoldenQuestion], Any],
) -> None:
    def work(size: int) -> int:
        turns = [(f"Question {number}?", [tool("look", turn=number)]) for number in range(1, size + 1)]
        one = session(turns, llm_calls=tuple(llm(turn=number) for number in range(1, size + 1)))
        one = replace(one, turns=tuple(turn._replace(final_response="") for turn in one.turns))
        expected = question(*(text for text, _ in turns), reference_responses=[""] * size)
        return lines_executed(partial(read, one, expected))

    assert math.log2(work(400) / work(200)) < MAX_EXPONENT


@pytest.mark.exhaustive
def test_the_slices_of_a_grade_share_one_index_of_the_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, questions = recorded(tmp_path, "apart", 501)
    database = spangrade.open(tmp_path / "s.duckdb")
    database.import_files(file, workers=1)
    prepared = prepare(GradeSpec.of(questions), database.stored)
    sessions, _ = sessions_to_grade(prepared, database.stored)
    run = prepared.new_run()

    def in_order(function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
        return map(function, jobs)

    judge = prepared.judge()
    shared = slices._shared_by(prepared, judge)
    monkeypatch.setattr(slices, "given_to_workers", lambda: shared)
    slices.prepared_here.cache_clear()
    grading = partial(slices.add_grades, run, prepared, judge, sessions, DEFAULT, in_order=in_order)
    assert calls_of(QuestionIndex.__init__.__code__, grading) == 1
    assert (len(run.sessions), run.verdicts["passed"]) == (501, 501)  # two slices
    slices.prepared_here.cache_clear()


def long_question(turns: int) -> dict[str, Any]:
    """Return a question that a conversation of `conversations` with as many turns answers."""
    return {
        "id": "q",
        "user_inputs": [f"Question {turn}?" for turn in range(1, turns + 1)],
        "agents_evaluated": ["a"],
        "reference_data": {"reference_trajectory": ["a"]},
    }


@pytest.mark.exhaustive
def test_a_report_takes_as_many_statements_for_one_session_as_for_all(tmp_path: Path) -> None:
    db = copy_of_sample(tmp_path / "s.duckdb")
    statements = []
    for where in ("session_id = 'conversation-1'", "true"):
        graded = partial(spangrade.open(db).grade, SAMPLE / "customer_service_golden.json", select=where)
        statements.append(calls_of(Store.query.__code__, partial(graded, out=tmp_path / "out")))
    assert statements[0] == statements[1]


def calls_of(code: object, function: Any) -> int:
    """Return how often a function runs while another does."""
    calls = 0

    def note(frame: Any, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is code

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls
