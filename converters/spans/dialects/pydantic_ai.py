"""Pydantic AI, from 0.x to 2.x.

Older versions record the operation and the agent by the span's name alone, and keep the messages in a list
on the span.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_text, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the conventions, and by Pydantic AI's own attributes what they lack."""
    attributes = dict(with_events(span, logs))
    if semconv.OPERATION_NAME not in attributes:
        if span.name.startswith("running tool") and semconv.TOOL_NAME in attributes:
            attributes[semconv.OPERATION_NAME] = semconv.EXECUTE_TOOL
        elif "agent_name" in attributes:
            attributes[semconv.OPERATION_NAME] = semconv.INVOKE_AGENT
    observation = genai.read_attributes(span, attributes)
    changes: dict[str, Any] = {}
    if observation.kind == "tool":
        if (text(attributes.get("logfire.msg")) or "").startswith("running output function"):
            changes["kind"] = "other"  # the last step of a structured answer, not a tool
        changes["arguments"] = observation.arguments or json_text(attributes.get("tool_arguments"))
        changes["result"] = observation.result or json_text(attributes.get("tool_response"))
    elif observation.kind == "agent":
        name = observation.agent or text(attributes.get("agent_name"))
        changes |= {"name": name, "agent": name}
        changes["response"] = observation.response or text(attributes.get("final_result"))
    return observation._replace(**changes) if changes else observation


DIALECT = Dialect(
    name="pydantic-ai",
    signs=Signs(scopes=frozenset({"pydantic-ai"})),
    read=read,
    before=("traceloop",),
    advice=Advice(
        name="Pydantic AI",
        content="set InstrumentationSettings(include_content=True)",
        conversation="run each turn in spangrade.session(ID), or put gen_ai.conversation.id on the spans",
        agents="give the agent a name: Agent(name=…)",
        model_calls="instrument the agent: Agent(instrument=True) or Agent.instrument_all()",
    ),
)
