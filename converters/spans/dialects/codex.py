"""Codex CLI: the spans of its Rust functions, and the log events that have their contents.

A turn is `session_task.turn`; the user's message, and arguments and result of a tool's call, are events of
spans below it. A span of the stream has the tokens of a model call. What the model answered is not recorded.

https://developers.openai.com/codex/config-advanced#observability-and-telemetry
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import first_text, json_text, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_SESSION = "conversation.id"


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by its name and its events."""
    attributes = span.attributes
    session = attributes.get(_SESSION) or next((log.attributes.get(_SESSION) for log in logs), None)
    own = {} if session is None else {semconv.CONVERSATION_ID: session}
    if "gen_ai.usage.input_tokens" in attributes:
        own[semconv.OPERATION_NAME] = semconv.CHAT
        return genai.read_attributes(span, {**attributes, **own})
    reading = genai.read_attributes(span, own)._replace(kind="other", not_understood=None)
    if span.name == "session_task.turn":
        return reading._replace(kind="turn", model=text(attributes.get("model")))
    if message := first_text(log.attributes.get("prompt") for log in _events(logs, "user_prompt")):
        return reading._replace(kind="turn", user_input=message)
    if (call_id := text(attributes.get("call_id"))) and "tool_source" in attributes:
        return reading._replace(kind="tool", call_id=call_id, name=text(attributes.get("tool_name")))
    result = next(_events(logs, "tool_result"), None)
    return reading if result is None else reading._replace(**_call(result.attributes))


def _call(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the event of a result adds to the span of its call, which is above it."""
    output = text(result.get("output"))
    failed = text(result.get("success")) == "false"
    return {
        "kind": "tool",
        "call_id": text(result.get("call_id")),
        "name": text(result.get("tool_name")),
        "arguments": json_text(result.get("arguments")),
        "result": None if output is None else json_text(output),
        "failed": failed,
        "error": output if failed else None,
    }


def _events(logs: Sequence[LogRecord], name: str) -> Iterator[LogRecord]:
    return (log for log in logs if log.attributes.get("event.name") == f"codex.{name}")


DIALECT = Dialect(
    name="codex",
    signs=Signs(scope_prefixes=("codex",)),
    read=read,
    advice=Advice(
        name="Codex CLI",
        content="set log_user_prompt = true and exporter in [otel] of config.toml, and import the logs too",
        tools="set exporter and trace_exporter in [otel] of config.toml, and import the logs too",
        model_calls="set trace_exporter in [otel] of config.toml",
    ),
)
