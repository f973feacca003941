"""Pipecat's voice pipelines: a conversation's turns, and in each the calls of its services.

Calls of models follow the conventions, but for their messages. Those of speech-to-speech services are not
read.

https://docs.pipecat.ai/server/utilities/opentelemetry
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import provider_values
from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_text, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

# The spans of speech-to-speech services (Gemini Live, OpenAI Realtime).
_LIVE = "llm_"


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (Pipecat has none)
    """Read a span by the conventions, and by Pipecat's own attributes what they lack."""
    attributes = span.attributes
    own: dict[str, Any] = {}
    if attributes.get(semconv.OPERATION_NAME) == semconv.CHAT:
        own = {
            semconv.INPUT_MESSAGES: provider_values.request_messages(attributes.get("input")) or None,
            semconv.OUTPUT_MESSAGES: provider_values.response_messages(attributes.get("output")) or None,
        }
    observation = genai.read_attributes(span, {**attributes, **own})
    conversation = text(attributes.get("conversation.id")) or observation.conversation_id
    observation = observation._replace(conversation_id=conversation)
    if "turn.number" in attributes:
        return observation._replace(kind="turn")
    if span.name.startswith(_LIVE):
        return observation._replace(kind="other", not_understood=span.scope_name)
    name = text(attributes.get("tool.function_name"))
    if name:
        return observation._replace(**_tool(observation, name, attributes))
    return observation._replace(text_only=observation.kind == "llm")


def _tool(observation: Reading, name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "tool",
        "name": name,
        "call_id": text(attributes.get("tool.call_id")),
        "arguments": json_text(attributes.get("tool.arguments")),
        "result": json_text(attributes.get("tool.result")),
        "failed": observation.failed or attributes.get("tool.result_status") == "error",
    }


DIALECT = Dialect(
    name="pipecat",
    signs=Signs(scope_prefixes=("pipecat",)),
    read=read,
    advice=Advice(
        name="Pipecat",
        content="set enable_tracing=True on the pipeline task",
        conversation="pass conversation_id to the pipeline task",
        agents="it names no agents: record gen_ai.agent.name on a span around the pipeline",
        tokens="set enable_usage_metrics=True in PipelineParams",
    ),
)
