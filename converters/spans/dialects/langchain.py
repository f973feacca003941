"""LangChain and LangGraph by instrumentations that follow the conventions: OpenTelemetry's own and OpenLIT's.

The results of its tools are LangChain's own: a message, or a command with the graph's state in it. OpenLIT
takes each node of a graph for an agent.
"""

from __future__ import annotations

from spangrade.converters.spans import langchain_values
from spangrade.converters.spans.dialect import GENAI_CONTENT, Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.observation import RunSpan
from spangrade.tracer import semconv
from spangrade.tracer.span import Span


def _agent(run: RunSpan, _: Span, __: Attributes) -> RunSpan:
    if run.name in langchain_values.NODES_OF_AGENTS:
        return run._replace(is_agent=False, name=None, agent=None)
    return run


DIALECT = Dialect(
    name="langchain",
    signs=Signs(
        scopes=frozenset(
            {
                "opentelemetry.instrumentation.genai.langchain",
                "openlit.instrumentation.langchain",
                "openlit.instrumentation.langgraph",
            }
        )
    ),
    outputs=(semconv.TOOL_CALL_RESULT,),
    fixes={"agent": _agent},
    before=("openinference",),
    advice=Advice(
        name="LangChain by OpenTelemetry",
        content=GENAI_CONTENT,
        conversation='pass config={"configurable": {"thread_id": …}} to the graph',
        agents="give the agent a name: create_agent(name=…)",
        tokens="set stream_usage=True on the chat model",
    ),
)
