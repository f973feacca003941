"""The matrix of hidden calls for agents of frameworks: no cell is a pass, and its mirror."""

import pytest
from hidden_calls import GATES, NONE, WAYS, act, driven, not_passed, passes
from test_frameworks import adk_runner, langgraph_graph, openai_agent, pydantic_ai_agent

import spangrade
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.turn import AgentTurn, UserTurn

KINDS = {
    "adk": adk_runner,
    "pydantic-ai": lambda seen: pydantic_ai_agent(seen, instrument=False),
    "langgraph": langgraph_graph,
    "openai-agents": openai_agent,
}


def found_by(kind, way, tmp_path, monkeypatch):
    """Return the verdicts on an agent of a framework whose scripted model hides a call."""

    def said(asked, result):
        if asked in GATES:
            act(asked, way)
        return "ok"

    monkeypatch.setattr("test_frameworks.script", said)
    # The first turn waits for what the framework imports, which is not the agent's time.
    ConversationRunner(KINDS[kind]([]), [UserTurn("Hello"), AgentTurn("*")]).run_sync()
    with spangrade.open(tmp_path / "db.duckdb") as db:
        return driven(db, KINDS[kind]([]))


@pytest.mark.parametrize("way", [way for way in WAYS if way != NONE])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.short_form("way", 4)
def test_matrix_of_an_agent_of_a_framework(kind, way, tmp_path, monkeypatch):
    found = found_by(kind, way, tmp_path, monkeypatch)
    assert passes(found) == [], found


@pytest.mark.parametrize("kind", KINDS)
def test_mirror_of_an_agent_of_a_framework(kind, tmp_path, monkeypatch):
    found = found_by(kind, NONE, tmp_path, monkeypatch)
    assert not_passed(found) == {}
