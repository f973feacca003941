"""Vercel's AI SDK, 3 to 7, by its own spans (`ai.operationId`) or, from 7, by the GenAI conventions.

A call of `generateText` or `streamText` is a run; its `doGenerate` or `doStream` spans are the model calls,
one per attempt. A run repeats the texts and tokens of its calls. OpenInference's span processor for the SDK
adds its attributes to these spans, and copies a failure onto others: only the original has an exception
event.

https://ai-sdk.dev/docs/ai-sdk-core/telemetry
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.messages import answer, read_exchange
from spangrade.converters.spans.observation import (
    Kind,
    ModelCall,
    Observation,
    RunSpan,
    Structure,
    changed,
    named_run,
)
from spangrade.converters.spans.values import (
    count,
    first_identity,
    first_text,
    json_object,
    objects,
    parse_json,
    text,
)
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_SCOPES = frozenset({"ai", "gen_ai"})
_OPERATION = "ai.operationId"
_RUNS = frozenset({"generateText", "streamText", "generateObject", "streamObject"})
_STEPS: Mapping[str, Kind] = {
    "toolCall": "tool",
    "doGenerate": "llm",
    "doStream": "llm",
    **dict.fromkeys(_RUNS, "workflow"),
}
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
_MODELS = ("ai.response.model", semconv.RESPONSE_MODEL, "ai.model.id", semconv.REQUEST_MODEL)


def _kind(_: Span, attributes: Attributes) -> Kind | None:
    operation = text(attributes.get(_OPERATION))
    if operation is None:
        return None
    return _STEPS.get(operation.rpartition(".")[2]) or _kind_by_content(operation, attributes)


def _kind_by_content(operation: str, attributes: Attributes) -> Kind:
    """Return the kind of a span whose operation has a name that is not known.

    Embeddings, images and speech are no steps.
    """
    if _NO_STEPS.search(operation):
        return "other"
    if text(attributes.get("ai.toolCall.name")):
        ran = attributes.keys() >= {"ai.toolCall.args", "ai.toolCall.result"}
        return "tool" if ran or text(attributes.get("ai.toolCall.id")) else "other"
    has_model = any(text(attributes.get(name)) for name in _MODELS)
    has_content = not _CONTENTS.isdisjoint(attributes) or bool(_tokens(attributes))
    return "llm" if has_model and has_content else "other"


def _values(_: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    session = _conversation_id(attributes)
    own: dict[str, Any] = {} if session is None else {semconv.CONVERSATION_ID: session}
    if kind is not None:
        own[semconv.AGENT_NAME] = attributes.get("ai.telemetry.functionId")
    if kind == "llm":
        given = attributes.get("ai.prompt.messages")
        if given is None:
            given = json_object(attributes.get("ai.prompt")).get("messages")
        reply = attributes.get("ai.response.text", attributes.get("ai.result.text"))
        calls = attributes.get("ai.response.toolCalls", attributes.get("ai.result.toolCalls"))
        written = attributes.get("ai.response.object", attributes.get("ai.result.object"))
        own[semconv.INPUT_MESSAGES] = objects(parse_json(given)) or None
        own[semconv.OUTPUT_MESSAGES] = answer(reply or written, calls) or None
    return own


def _any(observation: Observation, span: Span, attributes: Attributes) -> Observation:
    if "openinference.span.kind" in attributes and not any(e.get("name") == "exception" for e in span.events):
        observation = observation._replace(failure=None)
    operation = text(attributes.get(_OPERATION))
    is_new = operation is not None and operation.rpartition(".")[2] not in _STEPS
    return changed(
        observation,
        by_content="by_content" in observation.traits
        if operation is None
        else is_new and not isinstance(observation, Structure),
        user_id=observation.session.user_id or first_text(attributes.get(f"{c}userId") for c in _CONTEXTS),
    )


def _model_call(call: ModelCall, _: Span, attributes: Attributes) -> ModelCall:
    if text(attributes.get(_OPERATION)) is not None:
        call = call._replace(
            model=first_text(map(attributes.get, _MODELS)),
            provider=call.provider or text(attributes.get("ai.model.provider")),
            call_key=call.call_key or text(attributes.get("ai.response.id")),
        )
    return changed(call, **_tokens(attributes))


def _run(run: RunSpan, _: Span, attributes: Attributes) -> RunSpan:
    if text(attributes.get(_OPERATION)) is None:
        return run
    names = ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object")
    asked = _user_input(json_object(attributes.get("ai.prompt")))
    return changed(
        named_run(run, run.agent), user_input=asked, response=first_text(map(attributes.get, names))
    )


def _user_input(prompt: Mapping[str, Any]) -> str | None:
    given = prompt.get("messages", prompt.get("prompt"))
    return given if isinstance(given, str) else read_exchange(parse_json(given), None).user_input


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
    names = (context + key for context in _CONTEXTS for key in _CONVERSATION_IDS)
    named = first_identity(map(attributes.get, names))
    if named or "openinference.span.kind" not in attributes:
        return named
    metadata = json_object(attributes.get("metadata"))
    return first_identity((attributes.get("session.id"), *map(metadata.get, _CONVERSATION_IDS)))


DIALECT = Dialect(
    name="vercel",
    signs=Signs(scopes=_SCOPES, attributes=frozenset({_OPERATION})),
    names={
        "ai.toolCall.name": semconv.TOOL_NAME,
        "ai.toolCall.id": semconv.TOOL_CALL_ID,
        "ai.toolCall.args": semconv.TOOL_CALL_ARGUMENTS,
        "ai.toolCall.result": semconv.TOOL_CALL_RESULT,
    },
    kind=_kind,
    values=_values,
    fixes={None: _any, "llm": _model_call, "workflow": _run},
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
