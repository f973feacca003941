"""Haystack: an agent's run, its steps (a model call, tools), and the components of pipelines.

Contents are recorded as JSON, if content tracing is on. Model and usage are in the `meta` of a reply.

https://docs.haystack.deepset.ai/docs/tracing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import provider_values
from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_object, json_text, objects, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_RUN = "haystack.agent.run"
_MODEL = "haystack.agent.step.llm"
_TOOL = "haystack.agent.step.tool"
_COMPONENT = "haystack.component"
_NO_FAILURE = frozenset({"", "false", "none"})


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (Haystack has none)
    """Read a span by Haystack's attributes."""
    attributes = span.attributes
    if span.name == _TOOL:
        return _tool(span)
    prefix = span.name
    if span.name == "haystack.component.run":
        kind = text(attributes.get("haystack.component.type")) or ""
        prefix = _COMPONENT if kind.endswith("Generator") else ""
    inputs = json_object(attributes.get(f"{prefix}.input"))
    outputs = json_object(attributes.get(f"{prefix}.output"))
    if prefix in {_MODEL, _COMPONENT}:
        return _llm(span, inputs, outputs)
    observation = genai.read_attributes(span, {semconv.OPERATION_NAME: genai.NO_STEP})
    if span.name != _RUN:
        return observation
    inputs = json_object(attributes.get("haystack.agent.input"))
    outputs = json_object(attributes.get("haystack.agent.output"))
    given = read_exchange(_messages(inputs.get("messages")), None)
    answers = read_exchange(None, _messages(outputs.get("messages"))[-1:])
    return observation._replace(
        kind="workflow", user_input=given.user_input, response=answers.response or None
    )


def _tool(span: Span) -> Reading:
    attributes = span.attributes
    observation = genai.read_attributes(span, {semconv.OPERATION_NAME: genai.NO_STEP})
    name, failure = text(attributes.get("haystack.tool.name")), attributes.get("haystack.tool.error")
    return observation._replace(
        kind="tool" if name else "other",
        name=name,
        arguments=json_text(attributes.get(f"{_TOOL}.input")),
        result=json_text(attributes.get(f"{_TOOL}.output")),
        failed=observation.failed or str(failure).lower() not in _NO_FAILURE,
    )


def _llm(span: Span, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Reading:
    prompt = inputs.get("prompt")
    messages = [{"role": "user", "content": prompt}] if text(prompt) else _messages(inputs.get("messages"))
    replies = outputs.get("replies")
    answers: list[Any] = _messages(replies)
    if isinstance(replies, list) and not answers:
        answers = [{"role": "assistant", "content": reply} for reply in replies[:1]]
    metas = [*(message.get("meta") for message in answers), *objects(outputs.get("meta"))]
    meta = next((one for one in map(json_object, metas) if one), {})
    own = {
        semconv.OPERATION_NAME: semconv.CHAT,
        semconv.INPUT_MESSAGES: messages or None,
        semconv.OUTPUT_MESSAGES: answers or None,
    }
    return genai.read_attributes(span, own)._replace(
        model=text(meta.get("model")), **provider_values.tokens(json_object(meta.get("usage")))
    )


def _messages(value: Any) -> list[dict[str, Any]]:
    return [
        {**message, "content": [_part(part) for part in objects(message.get("content"))]}
        for message in objects(parse_json(value))
    ]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if call := json_object(part.get("tool_call")):
        names = {"name": call.get("tool_name"), "id": call.get("id")}
        return {"type": "tool_use", **names, "input": call.get("arguments")}
    if result := json_object(part.get("tool_call_result")):
        origin = json_object(result.get("origin"))
        names = {"name": origin.get("tool_name"), "tool_use_id": origin.get("id")}
        return {"type": "tool_result", **names, "content": result.get("result")}
    return {"type": "text", "text": part.get("text")} if "text" in part else {"type": "other"}


DIALECT = Dialect(
    name="haystack",
    signs=Signs(name_prefixes=("haystack.",)),
    read=read,
    advice=Advice(
        name="Haystack",
        content="set HAYSTACK_CONTENT_TRACING_ENABLED=true",
        conversation="it records no conversation: run each turn in spangrade.session(ID)",
        agents="it names no agents: run each agent in spangrade.agent(NAME)",
    ),
)
