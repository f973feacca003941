"""What `run` and pytest store is redacted; verdicts are those of what was seen before."""

import json
import textwrap
from pathlib import Path

import pytest
from command_line import run as spangrade

import spangrade as sg
from spangrade.evaluator.conversation_runner import ConversationMismatch, ConversationRunner
from spangrade.evaluator.judge.protocol import JudgeUnavailable
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

SECRETS = ("bob@example.com", "alice@example.com", "carol@example.com", "AKIAIOSFODNN7EXAMPLE")
AGENT = textwrap.dedent(
    """\
    from spangrade import tool

    def write(to):
        with tool("write") as made:
            made.arguments({"to": to})
            made.result({"sent": to})

    def answer(text):
        if text == "fail":
            raise ValueError("no account of carol@example.com")
        write("bob@example.com" if text == "right" else "alice@example.com")
        return f"Written to {'bob' if text == 'right' else 'alice'}@example.com, key AKIAIOSFODNN7EXAMPLE."
    """
)


def expected(name, address="bob@example.com"):
    call = {"name": "write", "arguments": {"to": address}}
    return {"id": name, "user_inputs": name, "reference_tool_interactions": [call]}


def stored(folder):
    """Return the bytes of all files that a command wrote."""
    ours = ("golden.json", "masked_agent.py")
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")
    return b"".join(file.read_bytes() for file in files if file.name not in ours)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPANGRADE_REDACT", "mask")
    (tmp_path / "masked_agent.py").write_text(AGENT)
    questions = [expected("right"), expected("wrong"), {**expected("fail"), "forbidden_texts": ["x"]}]
    (tmp_path / "golden.json").write_text(json.dumps(questions))
    return tmp_path


def verdicts():
    with sg.open() as db:
        grades = [db.latest_grade(one.session_id) for one in db]
    return {grade.question_id: grade.verdict for grade in grades}


def test_a_run_stores_no_secret_and_judges_what_it_saw(folder):
    done = spangrade("run", "masked_agent.py:answer", "golden.json", "--out", "out", "--name", "main")
    assert done.code == 1
    assert verdicts() == {"right": "passed", "wrong": "failed", "fail": "failed"}
    with sg.open() as db:
        assert {turn.final_response for one in db for turn in one.turns} == {
            "Written to [email], key [key].",
            None,
        }
    for command in ("sessions", "show", "runs"):
        done.out.extend(spangrade(command).out)
    found = stored(folder)
    assert b"[email]" in found
    for secret in SECRETS[1:]:  # the first is in the golden file itself
        assert secret.encode() not in found
        assert secret not in "\n".join(done.out)


def test_a_run_whose_name_looks_like_a_secret_finds_its_sessions(folder):
    done = spangrade("run", "masked_agent.py:answer", "golden.json", "--name", "ag:answer@a7583e39")
    assert (done.code, done.out[0]) == (1, "3 sessions: 1 passed, 2 failed")
    with sg.open() as db:
        assert {one.tags[0].rpartition("@")[0] for one in db} == {"spangrade.run=ag:answer@a7583e39"}


@pytest.mark.exhaustive
def test_a_later_grade_of_what_is_masked_is_inconclusive(folder):
    spangrade("run", "masked_agent.py:answer", "golden.json")
    assert spangrade("grade", "golden.json").code == 1
    assert verdicts() == {"right": "inconclusive", "wrong": "inconclusive", "fail": "failed"}
    for key in ("forbidden_texts", "required_texts"):
        texts = {"id": "wrong", "user_inputs": "wrong", key: ["eve@example.com"]}
        (folder / "other.json").write_text(json.dumps([expected("right", "bob"), texts]))
        spangrade("grade", "other.json")
        found = {name: verdict for name, verdict in verdicts().items() if name in ("right", "wrong")}
        assert found == {"right": "failed", "wrong": "inconclusive"}


def test_a_test_in_python_stores_no_secret(folder):
    import importlib.util

    spec = importlib.util.spec_from_file_location("masked_agent", folder / "masked_agent.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def turns(address):
        return [UserTurn("right"), AgentTurn("*", [ToolCall("write", {"to": address})])]

    ConversationRunner(module.answer, turns("bob@example.com"), store="t.duckdb").run_sync()
    with pytest.raises((ConversationMismatch, JudgeUnavailable)):
        ConversationRunner(module.answer, turns("eve@example.com"), store="t.duckdb").run_sync()
    with sg.open("t.duckdb") as db:
        assert [call.input_arguments for one in db for call in one.tool_interactions] == [
            {"to": "[email]"}
        ] * 2
    found = b"".join(file.read_bytes() for file in Path().glob("t.duckdb*") if file.is_file())
    assert all(secret.encode() not in found for secret in SECRETS)
