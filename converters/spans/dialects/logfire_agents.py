"""The OpenAI Agents SDK by Logfire: each span's kind is its message's template, its data are attributes.

A model call keeps the request and the response of the provider. Turns inside a run are rounds of the model.

https://logfire.pydantic.dev/docs/integrations/llms/openai/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import provider_values, run_io
from spangrade.converters.spans.advice import OPENAI_TRACES, Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_object, json_text, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

# By the beginning of the template.
_KINDS: tuple[tuple[str, Kind], ...] = (
    ("Agent run", "agent"),
    ("Chat completion", "llm"),
    ("Function", "tool"),
    ("Handoff", "handoff"),
    ("OpenAI Agents trace", "workflow"),
    ("Responses API", "llm"),
)


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (Logfire has none)
    """Read a span by Logfire's attributes."""
    attributes = span.attributes
    template = text(attributes.get("logfire.msg_template")) or span.name
    kind: Kind = next((kind for start, kind in _KINDS if template.startswith(start)), "other")
    own: dict[str, Any] = {semconv.OPERATION_NAME: genai.NO_STEP}
    if kind == "llm":
        given = attributes.get("raw_input", attributes.get("input"))
        returned = attributes.get("response", attributes.get("output"))
        own = {
            semconv.OPERATION_NAME: semconv.CHAT,
            semconv.INPUT_MESSAGES: provider_values.request_messages(given) or None,
            semconv.OUTPUT_MESSAGES: provider_values.response_messages(returned) or None,
        }
    observation = genai.read_attributes(span, {**attributes, **own})._replace(
        kind=kind, name=None, agent=None
    )
    error = json_object(attributes.get("error"))
    if error and kind != "other":
        observation = observation._replace(failed=True, error=text(error.get("message")) or observation.error)
    return observation._replace(**_changes(kind, observation, attributes))


def _changes(kind: Kind, observation: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    name = text(attributes.get("name"))
    match kind:
        case "agent":
            return {"kind": "agent" if name else "workflow", "name": name, "agent": name}
        case "tool":
            return {
                "kind": "tool" if name else "other",
                "name": name,
                "arguments": json_text(run_io.arguments(parse_json(attributes.get("input")))),
                "result": json_text(attributes.get("output")),
            }
        case "handoff":
            source, target = attributes.get("from_agent"), attributes.get("to_agent")
            return {"agent": text(source), "handoff_to": text(target)}
        case "workflow":
            group = text(attributes.get("group_id"))
            return {"conversation_id": None if group == "null" else group}
        case "llm":
            usage = json_object(attributes.get("usage")) if observation.input_tokens is None else {}
            counts = provider_values.tokens(usage)
            return {name: n for name, n in counts.items() if name in {"input_tokens", "output_tokens"}}
    return {}


DIALECT = Dialect(
    name="logfire-agents",
    signs=Signs(scopes=frozenset({"logfire.openai_agents"})),
    read=read,
    before=("openinference",),
    advice=Advice(
        name="the OpenAI Agents SDK by Logfire",
        content=f"unset {OPENAI_TRACES}, or set RunConfig(trace_include_sensitive_data=True)",
        conversation="pass group_id to the SDK's trace() or RunConfig",
        tokens="set ModelSettings(include_usage=True)",
    ),
)
