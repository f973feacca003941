"""Sentry's spans of agents: the conventions with its own names for messages and arguments.

https://develop.sentry.dev/sdk/telemetry/traces/modules/ai-agents/
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs
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
_OWN = frozenset({*_NAMES, _TEXT, _CALLS, "gen_ai.operation.type"})
# What a span does, in `sentry.op` and in `gen_ai.operation.type`.
_TYPE, _OP = "gen_ai.operation.type", "sentry.op"
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("agent", "gen_ai.invoke_agent"), "agent"),
    **dict.fromkeys(("ai_client", "gen_ai.chat", "gen_ai.generate_content", "gen_ai.generate_text"), "llm"),
    **dict.fromkeys(("gen_ai.request", "gen_ai.responses", "gen_ai.text_completion"), "llm"),
    **dict.fromkeys(("tool", "gen_ai.execute_tool"), "tool"),
}


def _kind(_: Span, attributes: Attributes) -> Kind | None:
    """Return the kind of a span whose operation is not named as the conventions name it."""
    if text(attributes.get(semconv.OPERATION_NAME)) is not None:
        return None
    words = (text(attributes.get(name)) for name in (_TYPE, _OP))
    return next((_KINDS[word] for word in words if word in _KINDS), None)


def _is_sentrys(span: Span) -> bool:
    """Return whether a span is Sentry's record of an agent's work, not of the web or of a database."""
    op = span.attributes.get(_OP)
    return not _OWN.isdisjoint(span.attributes) or (isinstance(op, str) and op in _KINDS)


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
    signs=Signs(attributes=_OWN | {_OP}),
    only_if=_is_sentrys,
    kind=_kind,
    names=_NAMES,
    values=_exchange,
    advice=Advice(
        name="Sentry",
        content="set send_default_pii=True in sentry_sdk.init(), and include_prompts=True in the integration",
    ),
)
