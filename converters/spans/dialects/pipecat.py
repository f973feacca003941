"""Pipecat's voice pipelines: a conversation's turns, and in each the calls of its services.

Calls of models follow the conventions, but for their messages. Those of speech-to-speech services are not
read.

https://docs.pipecat.ai/server/utilities/opentelemetry
"""

from __future__ import annotations

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs, failing
from spangrade.converters.spans.observation import Kind, Observation, changed
from spangrade.converters.spans.values import text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

# The spans of speech-to-speech services (Gemini Live, OpenAI Realtime).
_LIVE = "llm_"


def _kind(span: Span, attributes: Attributes) -> Kind | None:
    if "turn.number" in attributes:
        return "turn"
    if span.name.startswith(_LIVE):
        return "other"
    if attributes.get(semconv.OPERATION_NAME) == semconv.CHAT:
        return "llm"
    return "tool" if text(attributes.get("tool.function_name")) else None


def _any(observation: Observation, span: Span, attributes: Attributes) -> Observation:
    if span.name.startswith(_LIVE) and "turn.number" not in attributes:
        return changed(observation, not_understood=span.scope_name)
    return observation


DIALECT = Dialect(
    name="pipecat",
    signs=Signs(scope_prefixes=("pipecat",)),
    names={
        "conversation.id": semconv.CONVERSATION_ID,
        "tool.function_name": semconv.TOOL_NAME,
        "tool.call_id": semconv.TOOL_CALL_ID,
        "tool.arguments": semconv.TOOL_CALL_ARGUMENTS,
        "tool.result": semconv.TOOL_CALL_RESULT,
    },
    kind=_kind,
    inputs=("input",),
    outputs=("output",),
    fixes={
        None: _any,
        "llm": lambda call, *_: changed(call, text_only=True),
        "turn": lambda turn, *_: changed(turn, of_voice=True),
        "tool": failing("tool.result_status", "error"),
    },
    advice=Advice(
        name="Pipecat",
        content="set enable_tracing=True on the pipeline task",
        conversation="pass conversation_id to the pipeline task",
        agents="it names no agents: record gen_ai.agent.name on a span around the pipeline",
        tokens="set enable_usage_metrics=True in PipelineParams",
    ),
)
