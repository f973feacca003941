"""A table: what an agent of a framework does in a turn has the verdict of a function's, whoever drives it."""

import contextvars
import threading

import pytest
from test_frameworks import adk_runner, langgraph_graph, openai_agent, pydantic_ai_agent

import spangrade
from spangrade import RunOptions
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.turn import AgentTurn, UserTurn

# What the scripted model's turn does, and the verdict where another tool, `refund`, is forbidden.
ROWS = {
    "answers": "passed",
    "empty reply": "failed",
    "raises": "failed",
    "raises to the base": "failed",
    "too slow": "failed",
    "calls after the reply": "failed",
    "call that never ends": "inconclusive",
    "call in a thread": "inconclusive",
}
KINDS = {
    "adk": adk_runner,
    "pydantic-ai": lambda seen: pydantic_ai_agent(seen, instrument=False),
    "langgraph": langgraph_graph,
    "openai-agents": openai_agent,
}


class Halt(BaseException):
    pass


@spangrade.tool
def refund():
    return "done"


def later():
    threading.Event().wait(0.2)
    refund()


def does(row):
    """Do what a row says, as the model of an agent does it, and return the text that it answers."""
    if row == "empty reply":
        return ""
    if row == "raises":
        raise ValueError("no refunds")
    if row == "raises to the base":
        raise Halt("no refunds")
    if row == "calls after the reply":
        threading.Thread(target=contextvars.copy_context().run, args=(later,), daemon=True).start()
    if row == "call that never ends":
        spangrade.tool("refund").start()
    if row == "call in a thread":
        thread = threading.Thread(target=refund)
        thread.start()
        thread.join()
    if row == "too slow":
        threading.Event().wait(2.5)
    return "It is done."


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_an_agent_of_a_framework(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("test_frameworks.script", lambda asked, result: does(asked))
    questions = [{"id": row, "user_inputs": [row], "forbidden_tools": ["refund"]} for row in ROWS]
    # The first turn waits for what the framework imports, which is not the agent's time.
    ConversationRunner(KINDS[kind]([]), [UserTurn("Hello"), AgentTurn("*")]).run_sync()
    with spangrade.open(tmp_path / "db.duckdb") as db:
        run = db.run(KINDS[kind]([]), questions, options=RunOptions(timeout="2s"))
        again = db.grade(questions)
    # pydantic-ai asks the model again after an empty answer.
    expected = ROWS | {"empty reply": "passed"} if kind == "pydantic-ai" else ROWS
    assert {one.question_id: str(one.verdict) for one in run.sessions} == expected
    assert {one.question_id: str(one.verdict) for one in again.sessions} == expected
