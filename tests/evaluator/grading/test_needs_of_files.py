"""What a metric of a file needs: it gates where a question gives it, and everywhere if asked for by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Spangrade
from otlp_sessions import Call, Said, write_golden, write_sessions

TONE = """
import spangrade

@spangrade.metric(needs="tone", threshold=1.0)
def tone_kept(session, question):
    \"""1 if the last reply has the word.\"""
    return question.reference("tone") in session.turns[-1].final_response
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a metric, and three questions, of which one gives what it needs."""
    monkeypatch.chdir(tmp_path)
    Path("tone.py").write_text(TONE)
    texts = ["Hi", "Buy", "Bye"]
    expected = {"reference_tool_interactions": [{"tool_name": "find"}]}
    questions = [{"id": text, "user_inputs": [text], **expected} for text in texts]
    write_golden(Path("golden.json"), {**questions[0], "tone": "glad"}, *questions[1:])
    sessions = [
        (text, [Said(text, "I am glad." if text == "Hi" else "No.", [Call("find")])]) for text in texts
    ]
    write_sessions(Path("spans.jsonl"), sessions)


def graded(spangrade: Spangrade, *options: str) -> tuple[int, dict[str, str]]:
    done = spangrade("grade", "golden.json", "--spans", "spans.jsonl", "--format", "json", *options)
    grades = json.loads("\n".join(done.out))["grades"]
    return done.code, {one["question_id"]: one["reason"] for one in grades}


def test_it_gates_the_questions_that_give_it(spangrade: Spangrade) -> None:
    assert graded(spangrade, "--metrics-file", "tone.py") == (0, {"Hi": "", "Buy": "", "Bye": ""})
    asked = Path("golden.json").read_text()
    Path("golden.json").write_text(asked.replace('"tone": "glad"', '"tone": "sorry"'))
    reason = "tone_kept: 0, expected >= 1"
    assert graded(spangrade, "--metrics-file", "tone.py") == (1, {"Hi": reason, "Buy": "", "Bye": ""})


def test_asked_for_by_name_it_gates_every_question(spangrade: Spangrade) -> None:
    lacks = "tone_kept: the golden question has no tone; add it to the question"
    options = ("--metrics-file", "tone.py", "--metric", "tone_kept>=1")
    assert graded(spangrade, *options) == (4, {"Hi": "", "Buy": lacks, "Bye": lacks})


def test_one_that_no_question_gives_is_named(spangrade: Spangrade) -> None:
    Path("tone.py").write_text(TONE.replace('needs="tone"', 'needs="tome"'))
    done = spangrade("grade", "golden.json", "--spans", "spans.jsonl", "--metrics-file", "tone.py")
    assert (done.code, done.out[0]) == (4, "3 sessions: 3 passed; 1 gate applies to no session: tone_kept")
