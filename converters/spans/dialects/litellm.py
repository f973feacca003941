"""LiteLLM's own OpenTelemetry callback: the conventions, with what they lack in attributes of its own.

A reply that calls tools has no parts: the calls are `gen_ai.completion.N.function_call.*`, without ids. The
usage with its details is Python's repr of a dict. `raw_gen_ai_request` repeats the call that it is in.

https://docs.litellm.ai/docs/observability/opentelemetry_integration
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import provider_values
from spangrade.converters.spans.advice import STREAMED, Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.flattened import numbered
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_object, literal, objects, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_LONGEST = 10_000  # characters of an object in Python's syntax


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the conventions, and a model call's tool calls and usage by LiteLLM's own attributes."""
    attributes = dict(with_events(span, logs))
    calls = [
        {
            "type": "tool_call",
            "name": call["function_call.name"],
            "arguments": call.get("function_call.arguments"),
        }
        for call in numbered(attributes, "gen_ai.completion.")
        if "function_call.name" in call
    ]
    if calls:
        answers = objects(parse_json(attributes.get(semconv.OUTPUT_MESSAGES)))
        has_calls = any(part.get("type") == "tool_call" for a in answers for part in objects(a.get("parts")))
        if not has_calls:
            answers.append({"role": "assistant", "parts": calls})
        attributes[semconv.OUTPUT_MESSAGES] = answers
    observation = genai.read_attributes(span, attributes)
    if observation.kind != "llm":
        return observation._replace(kind="other")
    asked_with = _object(attributes.get("metadata.requester_metadata"))  # by the caller of a proxy
    session = observation.conversation_id or text(asked_with.get("session_id"))
    return observation._replace(conversation_id=session, **_details(attributes))


def _object(given: Any) -> Mapping[str, Any]:
    """Return an object of JSON, or of Python's syntax."""
    found = json_object(given)
    if not found and (source := text(given)) and len(source) <= _LONGEST:
        return json_object(literal(source))
    return found


def _details(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cached and the reasoning tokens of a call."""
    tokens = provider_values.tokens(_object(attributes.get("metadata.usage_object")))
    return {name: n for name, n in tokens.items() if name not in {"input_tokens", "output_tokens"}}


DIALECT = Dialect(
    name="litellm",
    signs=Signs(scopes=frozenset({"litellm"})),
    read=read,
    before=("openinference",),
    advice=Advice(
        name="LiteLLM",
        content="do not set litellm.turn_off_message_logging, nor message_logging=False",
        conversation='send metadata={"session_id": ID} to a proxy, or run each turn in spangrade.session(ID)',
        agents="it knows no agents: run each agent in spangrade.agent(NAME)",
        tools="it runs no tools: run each tool in spangrade.tool(NAME)",
        tokens=STREAMED,
    ),
)
