"""Haystack: an agent's run, its steps (a model call, tools), and the components of pipelines.

Contents are recorded as JSON, if content tracing is on. Model and usage are in the `meta` of a reply.

https://docs.haystack.deepset.ai/docs/tracing
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans import provider_values
from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.observation import Kind, ModelCall, SpanFailure, ToolUse, changed
from spangrade.converters.spans.values import json_object, objects, text
from spangrade.tracer import semconv
from spangrade.tracer.frameworks import HAYSTACK
from spangrade.tracer.span import Span

_RUN = "haystack.agent"
_MODEL = "haystack.agent.step.llm"
_TOOL = "haystack.agent.step.tool"
_COMPONENT = "haystack.component"
_STEPS = (_RUN, _MODEL, _TOOL, _COMPONENT)
_KINDS: Mapping[str, Kind] = {f"{_RUN}.run": "workflow", _MODEL: "llm", _TOOL: "tool"}
_NO_FAILURE = frozenset({"", "false", "none"})


def _kind(span: Span, attributes: Attributes) -> Kind:
    if span.name == f"{_COMPONENT}.run":
        component = text(attributes.get("haystack.component.type")) or ""
        return "llm" if component.endswith("Generator") else "other"
    return _KINDS.get(span.name, "other")


def _values(_: Span, attributes: Attributes, __: Kind | None) -> dict[str, Any]:
    """Return the answer of a generator whose replies are texts."""
    replies = _outputs(attributes).get("replies")
    if not isinstance(replies, list) or not replies or objects(replies):
        return {}
    return {semconv.OUTPUT_MESSAGES: [{"role": "assistant", "content": replies[0]}]}


def _outputs(attributes: Attributes) -> dict[str, Any]:
    """Return the outputs of a model's span: of a step, or of a component."""
    return json_object(attributes.get(f"{_MODEL}.output", attributes.get(f"{_COMPONENT}.output")))


def _model_call(call: ModelCall, _: Span, attributes: Attributes) -> ModelCall:
    outputs = _outputs(attributes)
    replies = [reply.get("meta") for reply in objects(outputs.get("replies"))]
    meta = next((one for one in map(json_object, [*replies, *objects(outputs.get("meta"))]) if one), {})
    tokens = provider_values.tokens(json_object(meta.get("usage")))
    return changed(call, model=text(meta.get("model")), **tokens)


def _tool(call: ToolUse, _: Span, attributes: Attributes) -> ToolUse:
    is_failed = str(attributes.get("haystack.tool.error")).lower() not in _NO_FAILURE
    return call._replace(failure=call.failure or SpanFailure()) if is_failed else call


DIALECT = Dialect(
    name="haystack",
    signs=Signs(name_prefixes=("haystack.",)),
    names={"haystack.tool.name": semconv.TOOL_NAME},
    kind=_kind,
    inputs=tuple(f"{step}.input" for step in _STEPS),
    outputs=tuple(f"{step}.output" for step in _STEPS),
    values=_values,
    fixes={"llm": _model_call, "tool": _tool},
    alone=True,
    advice=Advice(
        name="Haystack",
        content=f"set {HAYSTACK.settings}",
        conversation="it records no conversation: run each turn in spangrade.session(ID)",
        agents="it names no agents: run each agent in spangrade.agent(NAME)",
    ),
)
