"""Golden questions without user inputs: sessions answer them by their id alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from made_once import new_database
from otlp_sessions import Call, Said, write_sessions

from spangrade.converters.datasets.golden import append, new_questions

TURNS = [Said("Hi", calls=[Call("find")]), Said("And?")]
ANSWERS = ("--answers", "s1=a")


@pytest.fixture
def verdicts(spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Grade sessions by questions; the exit code, and by question what became of it."""
    monkeypatch.chdir(tmp_path)

    def grade(
        *questions: dict[str, Any], options: tuple[str, ...] = (), turns: Any = TURNS
    ) -> tuple[int, dict[str, str]]:
        new_database(Path("spangrade.duckdb"))
        Path("golden.json").write_text(json.dumps(list(questions)))
        write_sessions(Path("spans.jsonl"), [("s1", turns), ("s2", turns)][: 1 + ("two" in options)])
        given = [one for one in options if one != "two"]
        command = ("grade", "golden.json", "--spans", "spans.jsonl", "--out", "out", "--reports", "json")
        code = spangrade(*command, *given).code
        lines = map(json.loads, Path("out/sessions.jsonl").read_text().splitlines())
        return code, {str(line["question_id"]): line["verdict"] for line in lines}

    return grade


FIND = {"reference_tool_interactions": [{"name": "find"}]}


@pytest.mark.exhaustive
def test_a_session_answers_by_its_id_alone_with_any_number_of_turns(verdicts: Any) -> None:
    assert verdicts({"id": "a", **FIND}, options=ANSWERS) == (0, {"a": "passed"})
    assert verdicts({"id": "a", "forbidden_tools": ["find"]}, options=ANSWERS) == (1, {"a": "failed"})
    silent = [*TURNS, Said("Bye", "")]
    assert verdicts({"id": "a", **FIND}, options=ANSWERS, turns=silent) == (1, {"a": "failed"})


def test_a_session_without_the_id_answers_no_such_question(verdicts: Any) -> None:
    assert verdicts({"id": "a", **FIND}) == (4, {"None": "unmatched", "a": "inconclusive"})


def test_questions_of_equal_references_do_not_share_their_sessions(verdicts: Any) -> None:
    questions = {"id": "a", **FIND}, {"id": "b", **FIND}
    assert verdicts(*questions, options=("two", "--answers", "s1=b", "--answers", "s2=a")) == (
        0,
        {"b": "passed", "a": "passed"},
    )
    assert verdicts(*questions, options=ANSWERS) == (4, {"a": "passed", "b": "inconclusive"})


def test_two_of_them_are_not_the_same_question_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "golden.json"
    questions = [{"id": "a", **FIND}, {"id": "b", **FIND}]
    assert append(file, questions) == (2, [])
    assert new_questions(file, [{"id": "c", **FIND}]) == ([{"id": "c", **FIND}], [])


def test_an_agent_cannot_be_asked_such_a_question(
    spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("golden.json").write_text('{"id": "a", "required_tools": []}')
    Path("agent.py").write_text("def answer(text):\n    return text\n")
    done = spangrade("run", "agent.py:answer", "golden.json", "--db", "s.duckdb")
    assert (done.code, done.err) == (
        2,
        ["spangrade: DATASET question a: it has no user_inputs to say to an agent"],
    )
