"""Vercel's AI SDK, 3 to 7, by its own spans (`ai.operationId`) or, from 7, by the GenAI conventions.

A call of `generateText` or `streamText` is a run; its `doGenerate` or `doStream` spans are the model calls,
one per attempt. A run repeats the texts and tokens of its calls. OpenInference's span processor for the SDK
adds its attributes to these spans, and copies a failure onto others: only the original has an exception
event.

https://ai-sdk.dev/docs/ai-sdk-core/telemetry
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import ai_sdk_values
from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import count, first_text, json_object, json_text, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_SCOPES = frozenset({"ai", "gen_ai"})
_OPERATION = "ai.operationId"
_RUNS = frozenset({"generateText", "streamText", "generateObject", "streamObject"})
# The operations of the conventions by those that are known: calls of tools and of models, and runs.
_STEPS = {
    "toolCall": semconv.EXECUTE_TOOL,
    **dict.fromkeys(("doGenerate", "doStream"), semconv.CHAT),
    **dict.fromkeys(_RUNS, genai.NO_STEP),
}
_MODELS = ("ai.response.model", semconv.RESPONSE_MODEL, "ai.model.id", semconv.REQUEST_MODEL)
_CONTENTS = frozenset(
    {"ai.prompt", "ai.prompt.messages", "ai.response.text", "ai.response.toolCalls", "ai.response.object"}
)
# Operations that are not steps of a session, by a part of their names.
_NO_STEPS = re.compile(r"embed|image|moderat|rerank|speech|transcri|video", re.IGNORECASE)
_CONTEXTS = ("ai.telemetry.metadata.", "ai.settings.context.")
_CONVERSATION_IDS = ("sessionId", "session_id", "conversationId", "chatId", "threadId")
_TOKENS = (
    ("input_tokens", ("ai.usage.inputTokens", "ai.usage.promptTokens")),
    ("output_tokens", ("ai.usage.outputTokens", "ai.usage.completionTokens")),
    ("cached_input_tokens", ("ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens")),
    ("reasoning_tokens", ("ai.usage.outputTokenDetails.reasoningTokens", "ai.usage.reasoningTokens")),
    ("cache_write_tokens", ("ai.usage.inputTokenDetails.cacheWriteTokens",)),
)
_OPENAI = (("cached_input_tokens", "cachedPromptTokens"), ("reasoning_tokens", "reasoningTokens"))


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the SDK's attributes, and by the GenAI conventions what they lack."""
    attributes = with_events(span, logs)
    operation = text(attributes.get(_OPERATION))
    if operation is None:
        observation = genai.read_attributes(span, attributes)
        changes: dict[str, Any] = {**_tokens(attributes)} if observation.kind == "llm" else {}
    else:
        step = _STEPS.get(operation.rpartition(".")[2])
        own = _as_conventions(step or _step_by_content(operation, attributes), attributes)
        observation = genai.read_attributes(span, {**attributes, **own})
        changes = _changes(operation, observation, attributes)
        changes["by_content"] = step is None and observation.kind != "other"
    if "openinference.span.kind" in attributes and not any(e.get("name") == "exception" for e in span.events):
        changes |= {"failed": False, "error": None}
    return observation._replace(
        conversation_id=_conversation_id(attributes) or observation.conversation_id,
        user_id=observation.user_id or first_text(attributes.get(f"{c}userId") for c in _CONTEXTS),
        **changes,
    )


def _step_by_content(operation: str, attributes: Mapping[str, Any]) -> str:
    """Return the operation of the conventions that a span is, whose own has a name that is not known.

    Embeddings, images and speech are none.
    """
    if _NO_STEPS.search(operation):
        return genai.NO_STEP
    if text(attributes.get("ai.toolCall.name")):
        ran = attributes.keys() >= {"ai.toolCall.args", "ai.toolCall.result"}
        return semconv.EXECUTE_TOOL if ran or text(attributes.get("ai.toolCall.id")) else genai.NO_STEP
    has_model = any(text(attributes.get(name)) for name in _MODELS)
    has_content = not _CONTENTS.isdisjoint(attributes) or bool(_tokens(attributes))
    return semconv.CHAT if has_model and has_content else genai.NO_STEP


def _as_conventions(step: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a span of the SDK's own records under the names of the conventions."""
    if step == semconv.EXECUTE_TOOL:
        return {
            semconv.OPERATION_NAME: semconv.EXECUTE_TOOL,
            semconv.TOOL_NAME: attributes.get("ai.toolCall.name"),
            semconv.TOOL_CALL_ID: attributes.get("ai.toolCall.id"),
        }
    if step != semconv.CHAT:
        return {semconv.OPERATION_NAME: genai.NO_STEP}
    given = attributes.get("ai.prompt.messages")
    if given is None:
        given = json_object(attributes.get("ai.prompt")).get("messages")
    reply = attributes.get("ai.response.text", attributes.get("ai.result.text"))
    calls = attributes.get("ai.response.toolCalls", attributes.get("ai.result.toolCalls"))
    written = attributes.get("ai.response.object", attributes.get("ai.result.object"))
    return {
        semconv.OPERATION_NAME: semconv.CHAT,
        semconv.INPUT_MESSAGES: ai_sdk_values.messages(given) or None,
        semconv.OUTPUT_MESSAGES: ai_sdk_values.answer(reply or written, calls) or None,
    }


def _changes(operation: str, observation: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    agent = text(attributes.get("ai.telemetry.functionId"))
    changes: dict[str, Any] = {"agent": agent}
    if observation.kind == "tool":
        changes["arguments"] = json_text(attributes.get("ai.toolCall.args"))
        changes["result"] = json_text(attributes.get("ai.toolCall.result"))
    elif observation.kind == "llm":
        changes["model"] = first_text(attributes.get(name) for name in _MODELS)
        changes["provider"] = observation.provider or text(attributes.get("ai.model.provider"))
        changes["call_key"] = observation.call_key or text(attributes.get("ai.response.id"))
        changes |= _tokens(attributes)
    elif operation.rpartition(".")[2] in _RUNS:
        changes |= {"kind": "agent" if agent else "workflow", "name": agent}
        changes["user_input"] = _user_input(json_object(attributes.get("ai.prompt")))
        names = ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object")
        changes["response"] = first_text(attributes.get(name) for name in names)
    return changes


def _user_input(prompt: Mapping[str, Any]) -> str | None:
    given = prompt.get("messages", prompt.get("prompt"))
    return given if isinstance(given, str) else read_exchange(ai_sdk_values.messages(given), None).user_input


def _tokens(attributes: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of a model call.

    Up to version 5, the input of Anthropic's models is without what was read from a cache or written to one.
    """
    tokens: dict[str, int] = {}
    for name, keys in _TOKENS:
        number = next((n for key in keys if (n := count(attributes.get(key))) is not None), None)
        if number is not None:
            tokens[name] = number
    providers = json_object(attributes.get("ai.response.providerMetadata"))
    for name, key in _OPENAI:  # up to version 5, where a call is not streamed, the details are only there
        if (number := count(json_object(providers.get("openai")).get(key))) is not None:
            tokens.setdefault(name, number)
    usage = json_object(providers.get("anthropic"))
    if usage and "input_tokens" in tokens and "ai.usage.inputTokenDetails.noCacheTokens" not in attributes:
        read = tokens.get("cached_input_tokens", count(usage.get("cacheReadInputTokens")))
        written = count(usage.get("cacheCreationInputTokens"))
        cached = {"cached_input_tokens": read, "cache_write_tokens": written}
        tokens |= {name: number for name, number in cached.items() if number is not None}
        tokens["input_tokens"] += (read or 0) + (written or 0)
    return tokens


def _conversation_id(attributes: Mapping[str, Any]) -> str | None:
    named = first_text(attributes.get(context + key) for context in _CONTEXTS for key in _CONVERSATION_IDS)
    if named or "openinference.span.kind" not in attributes:
        return named
    metadata = json_object(attributes.get("metadata"))
    return first_text((attributes.get("session.id"), *map(metadata.get, _CONVERSATION_IDS)))


DIALECT = Dialect(
    name="vercel",
    signs=Signs(scopes=_SCOPES, attributes=frozenset({_OPERATION})),
    read=read,
    before=("openinference",),
    advice=Advice(
        name="Vercel's AI SDK",
        content="do not set recordInputs or recordOutputs to false in experimental_telemetry",
        conversation="pass the id as experimental_telemetry.metadata.sessionId; in version 7, as sessionId "
        "of the telemetry's context, which is recorded as ai.settings.context.sessionId",
        agents="pass the agent's name as experimental_telemetry.functionId",
        tools="give the tool an execute function: the SDK records ai.toolCall then",
        model_calls="set experimental_telemetry.isEnabled on each call",
    ),
)
