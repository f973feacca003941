"""LangChain and LangGraph by instrumentations that follow the conventions: OpenTelemetry's own and OpenLIT's.

The results of its tools are LangChain's own: a message, or a command with the graph's state in it. OpenLIT
takes each node of a graph for an agent.
"""

from __future__ import annotations

from collections.abc import Sequence

from spangrade.converters.spans import langchain_values, run_io
from spangrade.converters.spans.advice import GENAI_CONTENT, Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_text, parse_json
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the conventions, and a tool's result as LangChain's."""
    attributes = with_events(span, logs)
    observation = langchain_values.without_control_flow(span, genai.read_attributes(span, attributes))
    if observation.kind == "agent" and observation.name in langchain_values.NODES_OF_AGENTS:
        return observation._replace(kind="workflow", name=None, agent=None)
    if observation.kind != "tool":
        return observation
    output = parse_json(attributes.get(semconv.TOOL_CALL_RESULT))
    arguments = run_io.python_value(attributes.get(semconv.TOOL_CALL_ARGUMENTS))
    return observation._replace(
        arguments=json_text(arguments), **langchain_values.tool_output(observation, output)
    )


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
    read=read,
    before=("openinference",),
    advice=Advice(
        name="LangChain by OpenTelemetry",
        content=GENAI_CONTENT,
        conversation='pass config={"configurable": {"thread_id": …}} to the graph',
        agents="give the agent a name: create_agent(name=…)",
        tokens="set stream_usage=True on the chat model",
    ),
)
