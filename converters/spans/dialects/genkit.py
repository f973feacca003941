"""Genkit: an action's kind is `genkit:metadata:subtype`, its input and output are JSON.

A flow is a run; `generate` spans only repeat the model calls and tools inside them. Agents have no names.

https://genkit.dev/docs/observability/telemetry-collection/
"""

from __future__ import annotations

from collections.abc import Mapping

from spangrade.converters.spans import provider_values
from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs, failing
from spangrade.converters.spans.observation import Kind, ModelCall, changed
from spangrade.converters.spans.values import count, json_object, known, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_KINDS: Mapping[str | None, Kind] = {"flow": "workflow", "model": "llm", "tool": "tool", "tool.v2": "tool"}
_PROVIDERS = {"googleai": "gcp.gemini", "vertexai": "gcp.vertex_ai"}
_OUTPUT = "genkit:output"
# Gemini's names for the counts of Genkit's usage, which leaves Gemini's thoughts out of the output, too.
_USAGE = {
    "promptTokenCount": "inputTokens",
    "candidatesTokenCount": "outputTokens",
    "cachedContentTokenCount": "cachedContentTokens",
    "thoughtsTokenCount": "thoughtsTokens",
}


def _kind(_: Span, attributes: Attributes) -> Kind:
    subtype = text(attributes.get("genkit:metadata:subtype")) or text(attributes.get("genkit:type"))
    return _KINDS.get(subtype, "other")


def _model_call(call: ModelCall, _: Span, attributes: Attributes) -> ModelCall:
    output = json_object(attributes.get(_OUTPUT))
    provider, _slash, model = (text(attributes.get("genkit:name")) or "").rpartition("/")
    raw = json_object(output.get("raw") or output.get("custom"))
    usage = json_object(output.get("usage"))
    counts = {name: count(usage.get(own)) for name, own in _USAGE.items()}
    return changed(
        call,
        provider=_PROVIDERS.get(provider, provider) or None,
        model=text(raw.get("model")) or model or None,
        call_key=text(raw.get("id")) or text(raw.get("responseId")),
        **known(provider_values.gemini_usage(counts)._asdict())
        | provider_values.tokens(json_object(raw.get("usage") or raw.get("usageMetadata"))),
    )


DIALECT = Dialect(
    name="genkit",
    signs=Signs(attributes=frozenset({"genkit:type"})),
    names={"genkit:sessionId": semconv.CONVERSATION_ID, "genkit:name": semconv.TOOL_NAME},
    kind=_kind,
    inputs=("genkit:input",),
    outputs=(_OUTPUT,),
    fixes={None: failing("genkit:state", "error"), "llm": _model_call},
    alone=True,
    advice=Advice(
        name="Genkit",
        conversation="use the chat of ai.createSession({ sessionId }), which sets genkit:sessionId",
        agents="it names no agents: record gen_ai.agent.name on a span around each agent's run",
    ),
)
