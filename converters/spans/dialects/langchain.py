"""LangChain and LangGraph by `opentelemetry-instrumentation-genai-langchain`, which follows the conventions.

The results of its tools are LangChain's own: a message, or a command with the graph's state in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from spangrade.converters.spans import langchain_values
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.signs import Signs
from spangrade.converters.spans.values import parse_json
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

SIGNS = Signs(scopes=frozenset({"opentelemetry.instrumentation.genai.langchain"}))


def claims(span: Span, /) -> bool:
    """Return whether a span has the instrumentation's scope."""
    return SIGNS.are_on(span)


def read(span: Span, logs: Sequence[LogRecord]) -> Observation:
    """Read a span by the conventions, and a tool's result as LangChain's."""
    attributes = with_events(span, logs)
    observation = langchain_values.without_control_flow(span, genai.read_attributes(span, attributes))
    if observation.kind != "tool":
        return observation
    output = parse_json(attributes.get(semconv.TOOL_CALL_RESULT))
    return observation._replace(**langchain_values.tool_output(observation, output))
