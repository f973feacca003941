"""Codex CLI: the spans of its Rust functions, and the log events that have their contents.

A turn is `session_task.turn`; the user's message, and arguments and result of a tool's call, are events of
spans below it. A span of the stream has the tokens of a model call. What the model answered is not recorded.

https://developers.openai.com/codex/config-advanced#observability-and-telemetry
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import (
    MessageExchange,
    Observation,
    SpanFailure,
    Structure,
    ToolUse,
    TurnSpan,
)
from spangrade.converters.spans.values import first_text, json_text, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_SESSION = "conversation.id"


def read(span: Span, logs: Sequence[LogRecord]) -> Observation:
    """Read a span by its name and its events."""
    attributes = span.attributes
    session = attributes.get(_SESSION) or next((log.attributes.get(_SESSION) for log in logs), None)
    own = {} if session is None else {semconv.CONVERSATION_ID: session}
    if semconv.INPUT_TOKENS in attributes:
        return genai.read_attributes(span, {**attributes, **own}, "llm")
    base = genai.structure(span, own)
    if span.name == "session_task.turn":
        return TurnSpan(*base, model=text(attributes.get("model")))
    if message := first_text(log.attributes.get("prompt") for log in _events(logs, "user_prompt")):
        return TurnSpan(*base, exchange=MessageExchange(message))
    if (call_id := text(attributes.get("call_id"))) and "tool_source" in attributes:
        return ToolUse(*base, name=text(attributes.get("tool_name")), call_id=call_id)
    result = next(_events(logs, "tool_result"), None)
    return base if result is None else _call(base, result.attributes)


def _call(base: Structure, result: Attributes) -> ToolUse:
    """Return the span of a call with the event of its result, which is below it."""
    output = text(result.get("output"))
    failure = SpanFailure(output) if text(result.get("success")) == "false" else None
    return ToolUse(
        *base._replace(failure=failure),
        name=text(result.get("tool_name")),
        call_id=text(result.get("call_id")),
        arguments=json_text(result.get("arguments")),
        result=None if output is None else json_text(output),
    )


def _events(logs: Sequence[LogRecord], name: str) -> Iterator[LogRecord]:
    return (log for log in logs if log.attributes.get("event.name") == f"codex.{name}")


DIALECT = Dialect(
    name="codex",
    signs=Signs(scope_prefixes=("codex",)),
    read=read,
    advice=Advice(
        name="Codex CLI",
        content="set log_user_prompt = true and exporter in [otel] of config.toml, and import the logs too",
        replies="it records no answers: grade what it does",
        tools="set exporter and trace_exporter in [otel] of config.toml, and import the logs too",
        model_calls="set trace_exporter in [otel] of config.toml",
    ),
)
