"""A conversation that ends at the user's last message: nothing follows it, and other turns have replies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from otlp_sessions import Call, Said, write_golden, write_sessions

OPEN = Said("Buy it", None, model=False)
HI = Said("Hi", "Which?", [Call("find")])
WAITS = Said(
    "Hi", "Shall I?", [Call("sell", result="This tool call requires confirmation, please approve or reject.")]
)
NONE = "turns_answered: turn 2 has no reply"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def graded(spangrade: Spangrade, *options: str) -> tuple[int, str]:
    done = spangrade("grade", *options, "--spans", "spans.jsonl", "--format", "json")
    (grade,) = json.loads("\n".join(done.out))["grades"]
    return done.code, grade["reason"]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([HI, OPEN], (1, NONE)),
        ([HI, Said("Buy it", None)], (0, "")),  # a model was called: its reply is not recorded
        ([HI, Said("Buy it", None, [Call("sell")], model=False)], (0, "")),
        ([WAITS, OPEN], (4, f"{NONE}, and sell waits for approval")),
        ([Said("Hi", None), OPEN], (4, f"{NONE}, and no turn has: record the model's output")),
    ],
    ids=["nothing follows", "a model call", "a call", "an approval", "no replies"],
)
@pytest.mark.short_form("turns", 2)
@pytest.mark.short_form("expected", 2)
def test_a_session_of_a_question_that_ends_at_the_users_message(
    spangrade: Spangrade, turns: list[Said], expected: tuple[int, str]
) -> None:
    texts = [turn.user for turn in turns]
    write_golden(Path("golden.json"), {"id": "q", "user_inputs": texts, "forbidden_tools": ["delete"]})
    write_sessions(Path("spans.jsonl"), [("s", turns)])
    assert graded(spangrade, "golden.json") == expected
    if turns == [HI, OPEN]:
        code, reason = graded(spangrade, "golden.json", "--idle", "36500d")
        assert (code, reason.startswith("turns_answered: it may still run: ")) == (4, True)


def test_a_session_without_a_question_that_ends_at_the_users_message(spangrade: Spangrade) -> None:
    """Whether a reply is still to come is known where `run` asked, and not elsewhere."""
    write_sessions(Path("spans.jsonl"), [("s", [HI, OPEN])])
    gate = ("--metric", "tool_success_rate>=1")
    assert graded(spangrade, *gate) == (4, NONE)
    Path("shop.py").write_text(
        "import spangrade\n"
        "@spangrade.tool\n"
        "def find():\n"
        "    return 1\n"
        "def answer(text):\n"
        "    if text == 'Hi':\n"
        "        with spangrade.agent('shop'):\n"
        "            return str(find())\n"
    )
    write_golden(Path("golden.json"), {"id": "q", "user_inputs": ["Hi", "Buy it"], "forbidden_tools": ["x"]})
    run = spangrade("run", "shop.py:answer", "golden.json", "--db", "run.duckdb", "--format", "json")
    assert (run.code, json.loads("\n".join(run.out))["grades"][0]["reason"]) == (1, NONE)
    done = spangrade("grade", *gate, "--db", "run.duckdb", "--format", "json")
    assert (done.code, json.loads("\n".join(done.out))["grades"][0]["reason"]) == (1, NONE)


@pytest.mark.parametrize(
    ("said", "expected"), [("Thanks. ###STOP###", (0, "")), ("Thanks.", (1, NONE))], ids=["hangs up", "waits"]
)
def test_a_message_by_which_the_user_hangs_up_needs_no_reply(
    spangrade: Spangrade, said: str, expected: tuple[int, str]
) -> None:
    scenario = {"starting_prompt": "Hi", "plan": [], "stop_word": "###STOP###"}
    question: dict[str, Any] = {"id": "q", "scenario": scenario, "forbidden_tools": ["delete"]}
    Path("golden.json").write_text(json.dumps([question]))
    write_sessions(Path("spans.jsonl"), [("s", [HI, OPEN._replace(user=said)])])
    assert graded(spangrade, "golden.json", "--answers", "s=q") == expected
