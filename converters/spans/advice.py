"""How to make an instrumentation record more: the settings of a stack, by the missing fact.

Each setting is documented by its stack, or is in its source: docs/reading.md has the links. Where a stack
has None, it has no setting: it records that always, or it cannot. The settings stand in the dialects.
"""

from __future__ import annotations

from typing import NamedTuple

from spangrade.tracer.frameworks import GENAI
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE


class Advice(NamedTuple):
    """The settings of one stack, which `name` names.

    `content` records messages, arguments and results, `replies` the agent's answers where that is another
    setting, `conversation` the conversation's id, `agents` their
    names, `tools` a span per tool call, `model_calls` a span per model call, `tokens` their counts, `state`
    the state variables.
    """

    name: str
    content: str | None = None
    replies: str | None = None
    conversation: str | None = None
    agents: str | None = None
    tools: str | None = None
    model_calls: str | None = None
    tokens: str | None = None
    state: str | None = None


STREAMED = 'ask for usage in streamed answers: stream_options={"include_usage": True}'
GENAI_CONTENT = (
    f"set {GENAI.settings} (older instrumentations: {CAPTURE_CONTENT_VARIABLE}=true, and import the logs too)"
)
OPENAI_TRACES = "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA=0"
CLIENT = Advice(
    name="a client of a model's API",
    content=GENAI_CONTENT,
    conversation="run each turn in spangrade.session(ID), or put gen_ai.conversation.id on the spans",
    agents="run each agent in spangrade.agent(NAME), or record gen_ai.agent.name on a span around it",
    tools="run each tool in spangrade.tool(NAME), or record an execute_tool span around it",
    tokens=STREAMED,
)
