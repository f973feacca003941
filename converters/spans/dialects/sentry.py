"""Sentry's spans of agents: the conventions with names of its own for what is said and passed.

https://develop.sentry.dev/sdk/telemetry/traces/modules/ai-agents/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.messages import is_of_user
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.span import LogRecord, Span

_TEXT, _CALLS = "gen_ai.response.text", "gen_ai.response.tool_calls"
# To the name of the conventions.
_NAMES = {
    "gen_ai.request.messages": semconv.INPUT_MESSAGES,
    "gen_ai.tool.input": semconv.TOOL_CALL_ARGUMENTS,
    "gen_ai.tool.output": semconv.TOOL_CALL_RESULT,
    "gen_ai.usage.input_tokens.cached": semconv.CACHE_READ_TOKENS,
    "gen_ai.usage.input_tokens.cache_write": semconv.CACHE_WRITE_TOKENS,
    "gen_ai.usage.output_tokens.reasoning": semconv.REASONING_TOKENS,
}


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (it records no logs)
    """Read a span by the conventions, whose names take precedence over Sentry's."""
    attributes = dict(span.attributes)
    for name, conventional in _NAMES.items():
        if name in attributes:
            attributes.setdefault(conventional, attributes[name])
    if isinstance(given := parse_json(attributes.get(semconv.INPUT_MESSAGES)), list):
        attributes[semconv.INPUT_MESSAGES] = [message for one in given for message in _messages(one)]
    if not attributes.keys().isdisjoint((_TEXT, _CALLS)):
        attributes.setdefault(semconv.OUTPUT_MESSAGES, canonical([_message(span.attributes)]))
    return genai.read_attributes(span, attributes)


def _messages(message: Any) -> list[Any]:
    """Return a message; where its text is the JSON of the messages that an agent was given, these."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        content = content[0].get("text")
    if isinstance(content, str) and content.startswith('[{"'):
        listed = parse_json(content)
        if isinstance(listed, list) and any(map(is_of_user, listed)):
            return listed
    return [message]


def _message(attributes: Any) -> dict[str, Any]:
    """Return what the model answered as a message of OpenAI's."""
    said, calls = parse_json(attributes.get(_TEXT)), parse_json(attributes.get(_CALLS))
    texts = said if isinstance(said, list) else [said]
    found = [one if isinstance(one, dict) else {} for one in (calls if isinstance(calls, list) else ())]
    return {
        "role": "assistant",
        "content": "".join(part for part in map(text, texts) if part and part != "None") or None,
        "tool_calls": [
            {"id": one.get("id"), "type": "function", "function": one.get("function") or one} for one in found
        ],
    }


DIALECT = Dialect(
    name="sentry",
    signs=Signs(attributes=frozenset({*_NAMES, _TEXT, _CALLS})),
    read=read,
    advice=Advice(
        name="Sentry",
        content="set send_default_pii=True in sentry_sdk.init(), and include_prompts=True in the integration",
    ),
)
