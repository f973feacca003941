"""LiteLLM's own OpenTelemetry callback: the conventions, with further attributes of its own.

A reply that calls tools has no parts: the calls are `gen_ai.completion.N.function_call.*`, without ids. The
usage with its details is Python's repr of a dict. `raw_gen_ai_request` repeats the call that it is in.

https://docs.litellm.ai/docs/observability/opentelemetry_integration
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans import provider_values
from spangrade.converters.spans.dialect import STREAMED, Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.flattened import numbered
from spangrade.converters.spans.observation import Kind, ModelCall, changed
from spangrade.converters.spans.values import identity, json_object, literal, objects, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_OF_CALLS = ("name", "arguments")
_LONGEST = 10_000  # characters of an object in Python's syntax


def _values(_: Span, attributes: Attributes, __: Kind | None) -> dict[str, Any]:
    """Return the answer of a model with the calls that its parts lack."""
    calls = [
        {
            "type": "tool_call",
            **{key: call[f"function_call.{key}"] for key in _OF_CALLS if f"function_call.{key}" in call},
        }
        for call in numbered(attributes, "gen_ai.completion.")
        if "function_call.name" in call
    ]
    if not calls:
        return {}
    answers = objects(parse_json(attributes.get(semconv.OUTPUT_MESSAGES)))
    if not any(part.get("type") == "tool_call" for a in answers for part in objects(a.get("parts"))):
        answers.append({"role": "assistant", "parts": calls})
    return {semconv.OUTPUT_MESSAGES: answers}


def _model_call(call: ModelCall, _: Span, attributes: Attributes) -> ModelCall:
    asked_with = _object(attributes.get("metadata.requester_metadata"))  # by the caller of a proxy
    session = call.session.conversation_id or identity(asked_with.get("session_id"))
    tokens = provider_values.tokens(_object(attributes.get("metadata.usage_object")))
    details = {name: n for name, n in tokens.items() if name not in ("input_tokens", "output_tokens")}
    return changed(call, conversation_id=session, **details)


def _object(given: Any) -> Mapping[str, Any]:
    """Return an object of JSON, or of Python's syntax."""
    found = json_object(given)
    if not found and (source := text(given)) and len(source) <= _LONGEST:
        return json_object(literal(source))
    return found


DIALECT = Dialect(
    name="litellm",
    signs=Signs(scopes=frozenset({"litellm"})),
    kind=lambda span, attributes: None if genai.kind_of_span(span, attributes) == "llm" else "other",
    values=_values,
    fixes={"llm": _model_call},
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
