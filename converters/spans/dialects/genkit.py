"""Genkit: an action's kind is `genkit:metadata:subtype`, its input and output are JSON.

A flow is a run; `generate` spans only repeat the model calls and tools inside them. Agents have no names.

https://genkit.dev/docs/observability/telemetry-collection/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import provider_values, run_io
from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.gemini_usage import gemini_usage
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import count, json_object, json_text, objects, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_KINDS: dict[str | None, Kind] = {"flow": "workflow", "model": "llm", "tool": "tool", "tool.v2": "tool"}
_PROVIDERS = {"googleai": "gcp.gemini", "vertexai": "gcp.vertex_ai"}


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (Genkit has none)
    """Read a span by Genkit's attributes."""
    attributes = span.attributes
    subtype = text(attributes.get("genkit:metadata:subtype")) or text(attributes.get("genkit:type"))
    kind = _KINDS.get(subtype, "other")
    inputs, outputs = parse_json(attributes.get("genkit:input")), parse_json(attributes.get("genkit:output"))
    own: dict[str, Any] = {semconv.OPERATION_NAME: genai.NO_STEP}
    if kind == "llm":
        own = {
            semconv.OPERATION_NAME: semconv.CHAT,
            semconv.INPUT_MESSAGES: _messages(json_object(inputs).get("messages")) or None,
            semconv.OUTPUT_MESSAGES: _messages(_answers(json_object(outputs))) or None,
        }
    observation = genai.read_attributes(span, own)
    observation = observation._replace(
        kind=kind,
        conversation_id=text(attributes.get("genkit:sessionId")),
        failed=observation.failed or attributes.get("genkit:state") == "error",
    )
    name = text(attributes.get("genkit:name"))
    match kind:
        case "llm":
            return observation._replace(**_llm(name, json_object(outputs)))
        case "tool" if name:
            return observation._replace(name=name, arguments=json_text(inputs), result=json_text(outputs))
        case "tool":
            return observation._replace(kind="other")
        case "workflow":
            return observation._replace(
                user_input=run_io.user_input(inputs, topmost=True),
                response=run_io.response(outputs, topmost=True),
            )
    return observation


def _answers(output: Mapping[str, Any]) -> list[Any]:
    """Return the messages of a model's output; older versions have candidates."""
    return [output.get("message"), *(one.get("message") for one in objects(output.get("candidates")))]


def _messages(value: Any) -> list[dict[str, Any]]:
    return [
        {**message, "content": [_part(part) for part in objects(message.get("content"))]}
        for message in objects(value)
    ]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if request := json_object(part.get("toolRequest")):
        names = {"name": request.get("name"), "id": request.get("ref")}
        return {"type": "tool_use", **names, "input": request.get("input")}
    if response := json_object(part.get("toolResponse")):
        names = {"name": response.get("name"), "tool_use_id": response.get("ref")}
        return {"type": "tool_result", **names, "content": response.get("output")}
    return {"type": "text", "text": part.get("text")} if "text" in part else {"type": "other"}


def _llm(name: str | None, output: Mapping[str, Any]) -> dict[str, Any]:
    provider, _, model = (name or "").rpartition("/")
    raw = json_object(output.get("raw") or output.get("custom"))
    return {
        "provider": _PROVIDERS.get(provider, provider) or None,
        "model": text(raw.get("model")) or model or None,
        "call_key": text(raw.get("id")) or text(raw.get("responseId")),
        **_tokens(json_object(output.get("usage"))),
        **provider_values.tokens(json_object(raw.get("usage") or raw.get("usageMetadata"))),
    }


def _tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of Genkit's usage, which leaves Gemini's thoughts out of the output."""
    names = {"promptTokenCount": "inputTokens", "candidatesTokenCount": "outputTokens"}
    names |= {"cachedContentTokenCount": "cachedContentTokens", "thoughtsTokenCount": "thoughtsTokens"}
    counts = gemini_usage({name: count(usage.get(key)) for name, key in names.items()})
    return {name: number for name, number in counts._asdict().items() if number is not None}


DIALECT = Dialect(
    name="genkit",
    signs=Signs(attributes=frozenset({"genkit:type"})),
    read=read,
    advice=Advice(
        name="Genkit",
        conversation="use the chat of ai.createSession({ sessionId }), which sets genkit:sessionId",
        agents="it names no agents: record gen_ai.agent.name on a span around each agent's run",
    ),
)
