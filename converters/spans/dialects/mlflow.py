"""MLflow Tracing: every value is JSON text, also a text.

`mlflow.spanType` is a span's kind; agents and tools are named by their spans. The inputs and outputs of a
model call are the provider's own request and response.

https://mlflow.org/docs/latest/genai/tracing/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import cached_tokens, provider_values, run_io
from spangrade.converters.spans.advice import STREAMED, Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import first_text, json_object, json_text, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

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


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (MLflow has none)
    """Read a span by MLflow's attributes."""
    attributes = span.attributes
    kind = _KINDS.get(text(parse_json(attributes[_KIND])), "other")
    inputs, outputs = (parse_json(attributes.get(f"mlflow.span{side}")) for side in ("Inputs", "Outputs"))
    own: dict[str, Any] = {semconv.OPERATION_NAME: genai.NO_STEP}
    if kind == "llm":
        own = {
            semconv.OPERATION_NAME: semconv.CHAT,
            semconv.INPUT_MESSAGES: provider_values.request_messages(inputs) or None,
            semconv.OUTPUT_MESSAGES: provider_values.response_messages(outputs) or None,
        }
    session, user = (parse_json(attributes.get(f"mlflow.trace.{name}")) for name in ("session", "user"))
    observation = genai.read_attributes(span, own)._replace(
        kind=kind, conversation_id=text(session), user_id=text(user)
    )
    match kind:
        case "llm":
            return observation._replace(**_llm(attributes, inputs, outputs))
        case "tool":
            arguments, result = json_text(run_io.arguments(inputs)), json_text(outputs)
            return observation._replace(name=span.name, arguments=arguments, result=result)
        case "agent" | "workflow":
            topmost = span.parent_span_id is None
            named = kind == "agent" and _METHOD.isdisjoint(span.name)
            return observation._replace(
                kind="agent" if named else "workflow",
                name=span.name if named else None,
                agent=span.name if named else None,
                user_input=run_io.user_input(inputs, topmost=topmost),
                response=run_io.response(outputs, topmost=topmost),
                run_input=run_io.user_input(inputs, topmost=True),
                run_output=run_io.response(outputs, topmost=True),
            )
    return observation


def _llm(attributes: Mapping[str, Any], inputs: Any, outputs: Any) -> dict[str, Any]:
    request, response = json_object(inputs), json_object(outputs)
    models = (attributes.get("mlflow.llm.model"), response.get("model"), request.get("model"))
    usage = response.get("usage") or response.get("usage_metadata") or response.get("usageMetadata")
    provider, model = (
        text(parse_json(attributes.get("mlflow.llm.provider"))),
        first_text(map(parse_json, models)),
    )
    counts = provider_values.tokens(json_object(attributes.get("mlflow.chat.tokenUsage")), of_provider=False)
    of_response = provider_values.tokens(json_object(usage))
    if not of_response:
        counts |= cached_tokens.placed("mlflow", {}, counts, provider, model)
    return {
        "provider": provider,
        "model": model,
        "call_key": text(response.get("id")),
        **counts,
        **of_response,
    }


DIALECT = Dialect(
    name="mlflow",
    signs=Signs(attributes=frozenset({_KIND})),
    read=read,
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
