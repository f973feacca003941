"""The rows of the guide's table of frameworks: the agent that is played, and of which distributions."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from spangrade.tracer.frameworks import FRAMEWORKS, Framework

RECORD = Path(__file__).with_name("played.json")
_BY_NAME = {one.name: one for one in FRAMEWORKS}


class Row(NamedTuple):
    """A framework, and the script in stacks/ that is played: with its lines, `agent` is what `run` asks.

    `releases` are the distributions whose versions the guide names; it `hands_off` where the framework can.
    """

    framework: Framework
    releases: tuple[str, ...]
    script: str = ""
    agent: str = "answer"
    hands_off: bool = False


def _row(name: str, *releases: str, script: str = "", agent: str = "answer", hands_off: bool = False) -> Row:
    return Row(_BY_NAME[name], releases, script, agent, hands_off)


_OI = "openinference-instrumentation-"
# Its spans go to a provider of its own unless it is told so; else MLflow receives all spans of a process.
MLFLOW = Framework(
    "MLflow, here of LangChain",
    "mlflow.langchain",
    'os.environ["MLFLOW_USE_DEFAULT_TRACER_PROVIDER"] = "false"; mlflow.langchain.autolog()',
)
ROWS = {
    row.framework.name: row
    for row in (
        _row("Google ADK", "google-adk", script="adk.py", agent="agent", hands_off=True),
        _row("Pydantic AI", "pydantic-ai-slim", script="pydantic_ai.py", agent="agent"),
        _row(
            "LangChain, LangGraph",
            "langchain",
            "langgraph",
            _OI + "langchain",
            script="langgraph.py",
            agent="agent",
        ),
        _row(
            "OpenAI Agents SDK",
            "openai-agents",
            _OI + "openai-agents",
            script="openai_agents.py",
            agent="agent",
            hands_off=True,
        ),
        _row("CrewAI", "crewai", _OI + "crewai", script="crewai.py"),
        _row("LlamaIndex", "llama-index-core", _OI + "llama-index", script="llama_index.py"),
        _row("Agno", "agno", _OI + "agno", script="agno.py"),
        _row("smolagents", "smolagents", _OI + "smolagents", script="smolagents.py"),
        _row("DSPy", "dspy", _OI + "dspy", script="dspy.py"),
        _row("Strands", "strands-agents", script="strands.py"),
        _row("AutoGen", "autogen-agentchat", script="autogen.py", hands_off=True),
        _row("Microsoft Agent Framework", "agent-framework-core", script="agent_framework.py"),
        _row("Haystack", "haystack-ai", "opentelemetry-haystack", script="haystack.py"),
        _row("OpenAI's client", "openai", _OI + "openai", script="openai_client.py"),
        _row("Anthropic's client", "anthropic", _OI + "anthropic", script="anthropic_client.py"),
        _row("LiteLLM", "litellm", script="litellm.py"),
        Row(MLFLOW, ("mlflow", "langchain"), "mlflow.py", "agent"),
    )
}
