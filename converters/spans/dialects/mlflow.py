"""MLflow Tracing: every value is JSON text, also a text.

`mlflow.spanType` is a span's kind; agents and tools are named by their spans. The inputs and outputs of a
model call are the provider's own request and response.

https://mlflow.org/docs/latest/genai/tracing/
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans import provider_values, token_counts
from spangrade.converters.spans.dialect import STREAMED, Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.observation import Kind, ModelCall, changed
from spangrade.converters.spans.values import first_text, json_object, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_KIND, _INPUTS, _OUTPUTS = "mlflow.spanType", "mlflow.spanInputs", "mlflow.spanOutputs"
_KINDS: dict[str | None, Kind] = {
    "AGENT": "agent",
    "CHAIN": "workflow",
    "CHAT_MODEL": "llm",
    "LLM": "llm",
    "TOOL": "tool",
    "WORKFLOW": "workflow",
}
# What stands in the names of spans that are named after a method, not after an agent.
_METHOD = frozenset(".(")


def _kind(span: Span, attributes: Attributes) -> Kind:
    kind = _KINDS.get(text(parse_json(attributes[_KIND])), "other")
    return "workflow" if kind == "agent" and not _METHOD.isdisjoint(span.name) else kind


def _values(_: Span, attributes: Attributes, __: Kind | None) -> dict[str, Any]:
    names = {semconv.CONVERSATION_ID: "mlflow.trace.session", semconv.USER_ID: "mlflow.trace.user"}
    return {name: parse_json(attributes.get(own)) for name, own in names.items()}


def _model_call(call: ModelCall, _: Span, attributes: Attributes) -> ModelCall:
    request, response = (json_object(attributes.get(name)) for name in (_INPUTS, _OUTPUTS))
    models = (attributes.get("mlflow.llm.model"), response.get("model"), request.get("model"))
    model = first_text(map(parse_json, models))
    provider = text(parse_json(attributes.get("mlflow.llm.provider")))
    usage = response.get("usage") or response.get("usage_metadata") or response.get("usageMetadata")
    counts = provider_values.tokens(json_object(attributes.get("mlflow.chat.tokenUsage")), of_provider=False)
    of_response = provider_values.tokens(json_object(usage))
    if not of_response:
        counts |= token_counts.placed("mlflow", {}, counts, provider, model)
    call = call._replace(provider=provider, model=model, call_key=text(response.get("id")))
    return changed(call, **counts | of_response)


DIALECT = Dialect(
    name="mlflow",
    signs=Signs(attributes=frozenset({_KIND})),
    kind=_kind,
    inputs=(_INPUTS,),
    outputs=(_OUTPUTS,),
    named_by_span=frozenset({"agent", "tool"}),
    values=_values,
    fixes={"llm": _model_call},
    alone=True,
    advice=Advice(
        name="MLflow",
        content="record with mlflow.autolog() or @mlflow.trace, which keep inputs and outputs",
        conversation="OTLP leaves the trace's session out: put it on a span, by "
        'mlflow.get_current_active_span().set_attribute("mlflow.trace.session", ID)',
        agents="record the agent's span with @mlflow.trace(span_type=SpanType.AGENT)",
        tools="record the tool with @mlflow.trace(span_type=SpanType.TOOL)",
        model_calls="switch on mlflow.<flavor>.autolog() of the model client",
        tokens=STREAMED,
    ),
)
