"""Sentry's spans of agents: the conventions with its own names for messages and arguments.

https://develop.sentry.dev/sdk/telemetry/traces/modules/ai-agents/
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Attributes, Dialect, Signs
from spangrade.converters.spans.messages import answer, is_of_user
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.values import objects, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_TEXT, _CALLS = "gen_ai.response.text", "gen_ai.response.tool_calls"
_NAMES = {
    "gen_ai.request.messages": semconv.INPUT_MESSAGES,
    "gen_ai.tool.input": semconv.TOOL_CALL_ARGUMENTS,
    "gen_ai.tool.output": semconv.TOOL_CALL_RESULT,
    "gen_ai.usage.input_tokens.cached": semconv.CACHE_READ_TOKENS,
    "gen_ai.usage.input_tokens.cache_write": semconv.CACHE_WRITE_TOKENS,
    "gen_ai.usage.output_tokens.reasoning": semconv.REASONING_TOKENS,
}


def _exchange(_: Span, attributes: Attributes, __: Kind | None) -> dict[str, Any]:
    """Return the messages that a model or an agent was given, and its answer."""
    own: dict[str, Any] = {}
    given = attributes.get(semconv.INPUT_MESSAGES, attributes.get("gen_ai.request.messages"))
    if isinstance(given := parse_json(given), list):
        own[semconv.INPUT_MESSAGES] = [message for one in given for message in _messages(one)]
    if semconv.OUTPUT_MESSAGES not in attributes and not attributes.keys().isdisjoint((_TEXT, _CALLS)):
        said = parse_json(attributes.get(_TEXT))
        texts = [part for part in map(text, said if isinstance(said, list) else [said]) if part != "None"]
        listed = objects(parse_json(attributes.get(_CALLS)))
        calls = [{"id": one.get("id"), "function": one.get("function") or one} for one in listed]
        own[semconv.OUTPUT_MESSAGES] = answer("".join(filter(None, texts)), calls) or None
    return own


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


DIALECT = Dialect(
    name="sentry",
    signs=Signs(attributes=frozenset({*_NAMES, _TEXT, _CALLS})),
    names=_NAMES,
    values=_exchange,
    advice=Advice(
        name="Sentry",
        content="set send_default_pii=True in sentry_sdk.init(), and include_prompts=True in the integration",
    ),
)
