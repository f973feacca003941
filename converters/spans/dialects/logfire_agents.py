"""The OpenAI Agents SDK by Logfire: each span's kind is its message's template, its data are attributes.

A model call keeps the request and the response of the provider. Turns inside a run are rounds of the model.

https://logfire.pydantic.dev/docs/integrations/llms/openai/
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans import provider_values
from spangrade.converters.spans.dialect import OPENAI_TRACES, Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.observation import (
    Kind,
    ModelCall,
    Observation,
    Structure,
    changed,
    named_run,
)
from spangrade.converters.spans.values import json_object, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

# By the beginning of the template.
_KINDS: tuple[tuple[str, Kind], ...] = (
    ("Agent run", "agent"),
    ("Chat completion", "llm"),
    ("Function", "tool"),
    ("Handoff", "handoff"),
    ("OpenAI Agents trace", "workflow"),
    ("Responses API", "llm"),
)


def _kind(span: Span, attributes: Attributes) -> Kind:
    template = text(attributes.get("logfire.msg_template")) or span.name
    return next((kind for start, kind in _KINDS if template.startswith(start)), "other")


def _values(_: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    own: dict[str, Any] = {semconv.AGENT_NAME: attributes.get("name") if kind == "agent" else None}
    if kind == "tool":
        own[semconv.TOOL_NAME] = attributes.get("name")
    elif kind == "workflow":
        group = attributes.get("group_id")
        own[semconv.CONVERSATION_ID] = group
    return own


def _any(observation: Observation, _: Span, attributes: Attributes) -> Observation:
    error = json_object(attributes.get("error"))
    if not error or isinstance(observation, Structure):
        return observation
    known = observation.failure and observation.failure.error
    return changed(observation, failed=True, error=text(error.get("message")) or known)


def _model_call(call: ModelCall, _: Span, attributes: Attributes) -> ModelCall:
    usage = json_object(attributes.get("usage")) if call.tokens.input_tokens is None else {}
    counts = provider_values.tokens(usage)
    return changed(
        call, **{name: n for name, n in counts.items() if name in ("input_tokens", "output_tokens")}
    )


DIALECT = Dialect(
    name="logfire-agents",
    signs=Signs(scopes=frozenset({"logfire.openai_agents"})),
    kind=_kind,
    names={"from_agent": semconv.HANDOFF_FROM, "to_agent": semconv.HANDOFF_TO},
    inputs=("raw_input", "input"),
    outputs=("response", "output"),
    values=_values,
    fixes={None: _any, "agent": lambda run, *_: named_run(run, run.agent), "llm": _model_call},
    before=("openinference",),
    advice=Advice(
        name="the OpenAI Agents SDK by Logfire",
        content=f"unset {OPENAI_TRACES}, or set RunConfig(trace_include_sensitive_data=True)",
        conversation="pass group_id to the SDK's trace() or RunConfig",
        tokens="set ModelSettings(include_usage=True)",
    ),
)
