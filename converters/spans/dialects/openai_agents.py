"""The OpenAI Agents SDK by `opentelemetry-instrumentation-openai-agents-v2`.

The agent's name is a placeholder except on `invoke_agent`. Parts of messages that are not text are Python's
repr of a value: `ResponseFunctionToolCall(arguments='{}', call_id='call_5', …)`, `{'text': 'Hello', …}`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans.dialect import (
    GENAI_CONTENT,
    OPENAI_TRACES,
    Advice,
    Attributes,
    Dialect,
    Signs,
)
from spangrade.converters.spans.observation import Handoff, Kind, Observation, RunSpan
from spangrade.converters.spans.values import is_removed, literal, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span


def _values(_: Span, attributes: Attributes, __: Kind | None) -> dict[str, Any]:
    names = (semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES)
    return {name: _messages(parse_json(attributes[name])) for name in names if name in attributes}


def _any(observation: Observation, _: Span, __: Attributes) -> Observation:
    if isinstance(observation, RunSpan):
        return observation if observation.is_agent else observation._replace(agent=None, name=None)
    return observation if isinstance(observation, Handoff) else observation._replace(agent=None)


def _messages(messages: Any) -> Any:
    if not isinstance(messages, list):
        return messages
    return [read for message in messages if (read := _message(message)) is not None]


def _message(message: Any) -> Any:
    """Return a message with its parts read; None if it has only some that are not recorded."""
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
        return message
    parts = [read for part in message["parts"] if (read := _part(part)) is not None]
    return {**message, "parts": parts} if parts or not message["parts"] else None


def _part(part: Any) -> Any:
    content = part.get("content") if isinstance(part, dict) else None
    if not isinstance(content, str):
        return part
    if is_removed(content):
        return None
    if content.startswith("Response") and content.endswith(")"):
        fields = _literals(content)
        if fields is not None and "call_id" in fields:
            return {"type": "tool_call", **fields, "id": fields["call_id"]}
        return part if fields is None else None  # reasoning, or a call of a built-in tool
    if content.startswith("{'") and content.endswith("}"):
        fields = _literals(content)
        if fields is not None and fields.get("type") == "output_text":
            return {"type": "text", "content": fields.get("text")}
    return part


def _literals(source: str) -> Mapping[str, Any] | None:
    """Return the fields of a dict or of a call in Python's syntax; None if the source is neither."""
    try:
        tree = ast.parse(source, mode="eval").body
        if isinstance(tree, ast.Call):
            return {k.arg: literal(k.value) for k in tree.keywords if k.arg}  # None for a nested model
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    value = literal(tree)
    return value if isinstance(value, dict) else None


DIALECT = Dialect(
    name="openai-agents",
    signs=Signs(scopes=frozenset({"opentelemetry.instrumentation.openai_agents"})),
    kind=lambda _, attributes: "handoff" if text(attributes.get(semconv.HANDOFF_TO)) else None,
    values=_values,
    fixes={None: _any},
    advice=Advice(
        name="the OpenAI Agents SDK by OpenTelemetry",
        content=f"{GENAI_CONTENT}, and do not set {OPENAI_TRACES}",
        conversation="run each turn in spangrade.session(ID), or put gen_ai.conversation.id on the spans",
        tokens="set ModelSettings(include_usage=True)",
    ),
)
