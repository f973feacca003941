"""A session that failed becomes a question that expects what should have happened, and is proved at once."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from command_line import Spangrade
from failures_to_questions import shares
from otlp_sessions import Call, Said, write_sessions
from paths import SHARED

import spangrade as package


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database: one session that passes, and one whose refund fails and has another sum."""
    sessions = [
        ("good", [Said("Refund A1", "5 EUR are refunded.", [look_up(), refund(5)])]),
        ("bad", [Said("Refund A1", "I cannot.", [look_up(), refund(6, "ValueError: too much")])]),
    ]
    write_sessions(tmp_path / "spans.jsonl", sessions)
    monkeypatch.chdir(tmp_path)
    database = package.open("spangrade.duckdb")
    database.import_files("spans.jsonl")
    assert database.grade(gates=["tool_success_rate>=1"]).exit_code == 1
    return tmp_path


def look_up() -> Call:
    return Call("look_up", {"order": "A1"})


def refund(amount: int, error: str | None = None) -> Call:
    return Call("refund", {"order": "A1", "amount": amount}, error=error)


QUESTION = {
    "id": "bad",
    "user_inputs": ["Refund A1"],
    "agents_evaluated": ["shop"],
    "metadata": {"source_session": "bad"},
    "reference_data": {
        "reference_trajectory": ["shop"],
        "reference_tool_interactions": [
            {"tool_name": "look_up", "input_arguments": {"order": "A1"}},
            {"tool_name": "refund", "input_arguments": {"order": "A1", "amount": 5}},
        ],
        "required_texts": ["5 EUR"],
    },
    "reviewed": False,
}
COMMAND = ("convert", "bad", "--failed", "-o", "golden.json")


def written() -> list[object]:
    questions: list[object] = json.loads(Path("golden.json").read_text())["golden_questions"]
    return questions


def test_what_failed_is_struck_out_and_what_should_have_happened_is_proved(
    shop: Path, spangrade: Spangrade
) -> None:
    expected = ("--expect", 'refund {"order": "A1", "amount": 5}', "--expect", 'required_texts=["5 EUR"]')
    done = spangrade(*COMMAND, *expected)
    assert (done.code, done.err) == (0, [])
    assert done.out[0] == 'struck out: refund {"amount": 6, "order": "A1"}: it failed'
    assert done.out[-1].startswith(
        "1 question added to golden.json, not reviewed: it fails on the session, passes on a corrected copy, "
    )
    assert done.out[-1].endswith("and fails none of 1 session with these user inputs that pass")
    assert written() == [QUESTION]
    database = package.open("spangrade.duckdb")
    verdicts = {one.session_id: str(one.verdict) for one in database.grade("golden.json").sessions}
    assert verdicts == {"good": "passed", "bad": "failed"}


def test_the_terminal_asks_for_what_nothing_says(
    shop: Path, spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = ['refund {"order": "A1", "amount": 5}', "", "5 EUR", ""]
    monkeypatch.setattr("sys.stdin", _Terminal("\n".join(answers) + "\n"))
    assert spangrade(*COMMAND).code == 0
    assert written() == [QUESTION]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            (),
            "it is passed on the session, not failed: say what should have happened",
        ),
        (("--expect", 'required_texts=["6 EUR"]'), "the question is left out: it fails good, which passes"),
        (
            ("--expect", "forbidden_tools=5"),
            "what should have happened: reference_data.forbidden_tools: expected a list of strings",
        ),
        (("--expect", "refund {amount: 5}"), "not JSON"),
    ],
)
@pytest.mark.short_form("options", 3)
@pytest.mark.short_form("error", 2)
def test_a_question_that_is_not_proved_is_not_written(
    shop: Path, spangrade: Spangrade, options: tuple[str, ...], error: str
) -> None:
    done = spangrade(*COMMAND, *options)
    assert (done.code, error in " ".join(done.err)) == (2, True), done
    assert not (shop / "golden.json").exists()


@pytest.mark.skipif(not (SHARED / "bench" / "gen.py").exists(), reason="gen.py is not beside the repository")
@pytest.mark.exhaustive
def test_questions_of_planted_defects_are_proved() -> None:
    assert {all(all(row) for row in rows) for rows in shares(10).values()} == {True}
