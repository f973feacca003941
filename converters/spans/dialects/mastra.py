"""Mastra, by its own exporter or Arize's: `mastra.span.type` is a span's kind.

A generation's steps hold its tools, and since 1.5 one inference each, which is the model call; the generation
and the step only repeat it. Before, the generation itself is the call.

https://mastra.ai/docs/observability/tracing/overview
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import ai_sdk_values
from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai, openinference
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import first_text, json_object, parse_json, text
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


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the conventions or by OpenInference's attributes, and by Mastra's what they lack."""
    attributes = span.attributes
    by_arize = "openinference.span.kind" in attributes
    observation = openinference.read(span, logs) if by_arize else genai.read(span, logs)
    type_ = text(attributes[_TYPE])
    kind = _KINDS.get(type_, "other")
    if type_ in _GENERATIONS:  # the sum of the calls in it where these are recorded
        kind = "llm" if attributes.get("gen_ai.operation.name") == "chat" else "workflow"
    if kind == "tool" and observation.kind != "tool":
        kind = "other"
    changes: dict[str, Any] = {"kind": kind}
    if not observation.conversation_id:
        changes["conversation_id"] = text(attributes.get("mastra.metadata.threadId"))
    given, returned = _PAYLOADS.get(type_, ("input.value", "output.value"))
    inputs = parse_json(attributes.get(given, attributes.get("input.value")))
    outputs = json_object(attributes.get(returned, attributes.get("output.value")))
    match kind:
        case "agent":
            named = (attributes.get("gen_ai.agent.name"), attributes.get("gen_ai.agent.id"), observation.name)
            name = first_text(named)
            changes |= {"kind": kind if name else "workflow", "name": name, "agent": name}
            changes |= _run(observation, inputs, outputs)
        case "workflow":
            changes |= {"name": None, "agent": None, **_run(observation, inputs, outputs)}
        case "llm":
            answer = read_exchange(None, ai_sdk_values.answer(outputs.get("text"), outputs.get("toolCalls")))
            changes["tool_calls"] = observation.tool_calls or answer.tool_calls
            changes["response"] = observation.response or answer.response
        case "other":
            changes |= {"name": None, "tool_calls": (), "tool_results": (), "digests": None}
    return observation._replace(**changes)


def _run(observation: Reading, inputs: Any, outputs: Mapping[str, Any]) -> dict[str, Any]:
    given = inputs.get("messages", inputs.get("prompt")) if isinstance(inputs, dict) else inputs
    if not isinstance(given, str):
        given = read_exchange(ai_sdk_values.messages(given), None).user_input
    return {
        "user_input": observation.user_input or text(given),
        "response": observation.response or text(outputs.get("text")),
    }


DIALECT = Dialect(
    name="mastra",
    signs=Signs(attributes=frozenset({_TYPE})),
    read=read,
    repeats_calls=True,
    before=("openinference",),
    advice=Advice(
        name="Mastra",
        content="do not remove inputs and outputs in a span output processor or by hideInput and hideOutput",
        conversation="pass memory: { thread, resource } to the agent, or tracingOptions.metadata.sessionId",
        tokens="let the model report its usage: one of your own returns it from doGenerate and doStream",
    ),
)
