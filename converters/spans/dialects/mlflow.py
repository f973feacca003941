"""MLflow Tracing: every value is JSON text, also a text.

`mlflow.spanType` is a span's kind; agents and tools are named by their spans. The inputs and outputs of a
model call are the provider's own request and response.

https://mlflow.org/docs/latest/genai/tracing/
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans import cached_tokens, provider_values, run_io
from spangrade.converters.spans.advice import STREAMED, Advice
from spangrade.converters.spans.dialect import Attributes, Dialect, Signs
from spangrade.converters.spans.observation import Kind, ModelCall, RunSpan, changed, named_run
from spangrade.converters.spans.values import first_text, json_object, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_KIND = "mlflow.spanType"
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


def _kind(_: Span, attributes: Attributes) -> Kind:
    return _KINDS.get(text(parse_json(attributes[_KIND])), "other")


def _io(attributes: Attributes) -> tuple[Any, Any]:
    return parse_json(attributes.get("mlflow.spanInputs")), parse_json(attributes.get("mlflow.spanOutputs"))


def _values(span: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    own = {
        semconv.CONVERSATION_ID: parse_json(attributes.get("mlflow.trace.session")),
        semconv.USER_ID: parse_json(attributes.get("mlflow.trace.user")),
    }
    inputs, outputs = _io(attributes)
    if kind == "llm":
        own |= provider_values.exchange(inputs, outputs)
    elif kind == "tool":
        own |= {semconv.TOOL_NAME: span.name, semconv.TOOL_CALL_RESULT: outputs}
        own[semconv.TOOL_CALL_ARGUMENTS] = run_io.arguments(inputs)
    return own


def _model_call(call: ModelCall, _: Span, attributes: Attributes) -> ModelCall:
    request, response = map(json_object, _io(attributes))
    models = (attributes.get("mlflow.llm.model"), response.get("model"), request.get("model"))
    model = first_text(map(parse_json, models))
    provider = text(parse_json(attributes.get("mlflow.llm.provider")))
    usage = response.get("usage") or response.get("usage_metadata") or response.get("usageMetadata")
    counts = provider_values.tokens(json_object(attributes.get("mlflow.chat.tokenUsage")), of_provider=False)
    of_response = provider_values.tokens(json_object(usage))
    if not of_response:
        counts |= cached_tokens.placed("mlflow", {}, counts, provider, model)
    call = call._replace(provider=provider, model=model, call_key=text(response.get("id")))
    return changed(call, **counts | of_response)


def _run(run: RunSpan, span: Span, attributes: Attributes) -> RunSpan:
    run = named_run(run, span.name if run.is_agent and _METHOD.isdisjoint(span.name) else None)
    return run_io.with_io(run, *_io(attributes), topmost=span.parent_span_id is None)


DIALECT = Dialect(
    name="mlflow",
    signs=Signs(attributes=frozenset({_KIND})),
    kind=_kind,
    values=_values,
    fixes={"llm": _model_call, "agent": _run, "workflow": _run},
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
