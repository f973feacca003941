"""Mastra, by its own exporter or Arize's: `mastra.span.type` is a span's kind.

A generation's steps hold its tools, and since 1.5 one inference each, which is the model call; the generation
and the step only repeat it. Before, the generation itself is the call.

https://mastra.ai/docs/observability/tracing/overview
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.dialect import Advice, Dialect, Signs
from spangrade.converters.spans.dialects import genai, openinference
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.messages import answer, read_exchange
from spangrade.converters.spans.observation import (
    Kind,
    ModelCall,
    Observation,
    RunSpan,
    ToolUse,
    as_kind,
    changed,
    named_run,
)
from spangrade.converters.spans.values import first_text, identity, json_object, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_TYPE = "mastra.span.type"
_KINDS: dict[str | None, Kind] = {
    "agent_run": "agent",
    "mcp_tool_call": "tool",
    "model_inference": "llm",
    "tool_call": "tool",
    "workflow_run": "workflow",
}
_PAYLOADS: dict[str | None, tuple[str, str]] = {
    "agent_run": ("mastra.agent_run.input", "mastra.agent_run.output"),
    "llm_generation": ("mastra.llm_generation.input", "mastra.llm_generation.output"),
    "model_generation": ("mastra.model_generation.input", "mastra.model_generation.output"),
    "model_inference": ("mastra.model_inference.input", "mastra.model_inference.output"),
    "workflow_run": ("mastra.workflow_run.input", "mastra.workflow_run.output"),
}
_GENERATIONS = frozenset({"llm_generation", "model_generation"})


def read(span: Span, logs: Sequence[LogRecord]) -> Observation:
    """Read a span by the conventions or by OpenInference's attributes, then by Mastra's."""
    attributes = span.attributes
    type_ = text(attributes[_TYPE])
    kind = _KINDS.get(type_, "other")
    if type_ in _GENERATIONS:  # the sum of the calls in it where these are recorded
        kind = "llm" if attributes.get(semconv.OPERATION_NAME) == semconv.CHAT else "workflow"
    if "openinference.span.kind" in attributes:
        observation = genai.reader(openinference.DIALECT)(span, logs)
    else:
        observation = genai.read_attributes(span, with_events(span, logs), None if kind == "tool" else kind)
    if kind == "tool" and not isinstance(observation, ToolUse):
        kind = "other"
    observation = as_kind(observation, kind)
    if observation.session.conversation_id is None:
        session = identity(attributes.get("mastra.metadata.threadId"))
        observation = changed(observation, conversation_id=session)
    given, returned = _PAYLOADS.get(type_, ("input.value", "output.value"))
    inputs = parse_json(attributes.get(given, attributes.get("input.value")))
    outputs = json_object(attributes.get(returned, attributes.get("output.value")))
    if isinstance(observation, RunSpan):
        named = (attributes.get(semconv.AGENT_NAME), attributes.get("gen_ai.agent.id"), observation.name)
        return _run(named_run(observation, first_text(named) if kind == "agent" else None), inputs, outputs)
    if isinstance(observation, ModelCall):
        said = read_exchange(None, answer(outputs.get("text"), outputs.get("toolCalls")))
        known = observation.exchange
        return changed(
            observation,
            tool_calls=known.tool_calls or said.tool_calls,
            response=known.response or said.response,
        )
    return observation


def _run(run: RunSpan, inputs: Any, outputs: Mapping[str, Any]) -> RunSpan:
    given = inputs.get("messages", inputs.get("prompt")) if isinstance(inputs, dict) else inputs
    if not isinstance(given, str):
        given = read_exchange(parse_json(given), None).user_input
    return changed(
        run,
        user_input=run.exchange.user_input or text(given),
        response=run.exchange.response or text(outputs.get("text")),
    )


DIALECT = Dialect(
    name="mastra",
    signs=Signs(attributes=frozenset({_TYPE})),
    read=read,
    before=("openinference",),
    repeats_calls=True,
    advice=Advice(
        name="Mastra",
        content="do not remove inputs and outputs in a span output processor or by hideInput and hideOutput",
        conversation="pass memory: { thread, resource } to the agent, or tracingOptions.metadata.sessionId",
        tokens="let the model report its usage: one of your own returns it from doGenerate and doStream",
    ),
)
