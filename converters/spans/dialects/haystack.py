"""Haystack: an agent's run, its steps (a model call, tools), and the components of pipelines.

Contents are recorded as JSON, if content tracing is on. Model and usage are in the `meta` of a reply.

https://docs.haystack.deepset.ai/docs/tracing
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans import provider_values
from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Attributes, Dialect, Signs
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.observation import Kind, ModelCall, RunSpan, SpanFailure, ToolUse, changed
from spangrade.converters.spans.values import json_object, objects, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_RUN = "haystack.agent"
_MODEL = "haystack.agent.step.llm"
_TOOL = "haystack.agent.step.tool"
_COMPONENT = "haystack.component"
_KINDS: Mapping[str, Kind] = {f"{_RUN}.run": "workflow", _MODEL: "llm", _TOOL: "tool"}
_NO_FAILURE = frozenset({"", "false", "none"})


def _kind(span: Span, attributes: Attributes) -> Kind:
    if span.name == f"{_COMPONENT}.run":
        component = text(attributes.get("haystack.component.type")) or ""
        return "llm" if component.endswith("Generator") else "other"
    return _KINDS.get(span.name, "other")


def _values(span: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    if kind != "llm":
        return {}
    prefix = _MODEL if span.name == _MODEL else _COMPONENT
    inputs, outputs = (json_object(attributes.get(f"{prefix}.{side}")) for side in ("input", "output"))
    prompt, replies = inputs.get("prompt"), outputs.get("replies")
    messages = [{"role": "user", "content": prompt}] if text(prompt) else objects(inputs.get("messages"))
    answers: list[Any] = objects(replies)
    if isinstance(replies, list) and not answers:
        answers = [{"role": "assistant", "content": reply} for reply in replies[:1]]
    return {semconv.INPUT_MESSAGES: messages or None, semconv.OUTPUT_MESSAGES: answers or None}


def _model_call(call: ModelCall, span: Span, attributes: Attributes) -> ModelCall:
    outputs = json_object(attributes.get(f"{_MODEL if span.name == _MODEL else _COMPONENT}.output"))
    metas = [
        *(reply.get("meta") for reply in objects(outputs.get("replies"))),
        *objects(outputs.get("meta")),
    ]
    meta = next((one for one in map(json_object, metas) if one), {})
    tokens = provider_values.tokens(json_object(meta.get("usage")))
    return changed(call, model=text(meta.get("model")), **tokens)


def _tool(call: ToolUse, _: Span, attributes: Attributes) -> ToolUse:
    is_failed = str(attributes.get("haystack.tool.error")).lower() not in _NO_FAILURE
    return call._replace(failure=call.failure or SpanFailure()) if is_failed else call


def _run(run: RunSpan, _: Span, attributes: Attributes) -> RunSpan:
    inputs, outputs = (json_object(attributes.get(f"{_RUN}.{side}")) for side in ("input", "output"))
    given = read_exchange(objects(inputs.get("messages")), None)
    answers = read_exchange(None, objects(outputs.get("messages"))[-1:])
    return changed(run, user_input=given.user_input, response=answers.response or None)


DIALECT = Dialect(
    name="haystack",
    signs=Signs(name_prefixes=("haystack.",)),
    names={
        "haystack.tool.name": semconv.TOOL_NAME,
        f"{_TOOL}.input": semconv.TOOL_CALL_ARGUMENTS,
        f"{_TOOL}.output": semconv.TOOL_CALL_RESULT,
    },
    kind=_kind,
    values=_values,
    fixes={"llm": _model_call, "tool": _tool, "workflow": _run},
    alone=True,
    advice=Advice(
        name="Haystack",
        content="set HAYSTACK_CONTENT_TRACING_ENABLED=true",
        conversation="it records no conversation: run each turn in spangrade.session(ID)",
        agents="it names no agents: run each agent in spangrade.agent(NAME)",
    ),
)
