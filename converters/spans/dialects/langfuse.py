"""Langfuse's SDKs: `langfuse.observation.type` is a span's kind, its name is the agent's or the tool's.

Inputs and outputs are what the application or a wrapper of a model client put there: messages, a provider's
request, a text or, by Python's decorator, a function's `{"args": […], "kwargs": {…}}`. Python's wrapper of
OpenAI counts tokens as OpenAI does; others leave cached tokens out of `input`, and reasoning out of `output`.

https://langfuse.com/docs/observability/overview
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import provider_values, run_io
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import Kind, Observation
from spangrade.converters.spans.signs import Signs
from spangrade.converters.spans.values import count, first_text, json_object, json_text, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_KIND = "langfuse.observation.type"
_KINDS: dict[str | None, Kind] = {
    "agent": "agent",
    "chain": "workflow",
    "generation": "llm",
    "span": "workflow",
    "tool": "tool",
}
_CALL = {"args", "kwargs"}
SIGNS = Signs(attributes=frozenset({_KIND}))


def claims(span: Span, /) -> bool:
    """Return whether a span has Langfuse's type of observation."""
    return SIGNS.are_on(span)


def read(span: Span, logs: Sequence[LogRecord]) -> Observation:  # noqa: ARG001 (Langfuse has none)
    """Read a span by Langfuse's attributes."""
    attributes = span.attributes
    kind = _KINDS.get(text(attributes[_KIND]), "other")
    topmost = span.parent_span_id is None
    if attributes[_KIND] == "span" and not topmost:
        kind = "other"  # any function
    inputs, outputs = _value(attributes, "input", topmost), _value(attributes, "output", topmost)
    own: dict[str, Any] = {semconv.OPERATION_NAME: "langfuse"}
    if kind == "llm":
        own = {
            semconv.OPERATION_NAME: semconv.CHAT,
            semconv.INPUT_MESSAGES: provider_values.request_messages(inputs) or None,
            semconv.OUTPUT_MESSAGES: provider_values.response_messages(outputs) or None,
        }
    observation = genai.read_attributes(span, own)
    session_ids = (attributes.get("session.id"), attributes.get("langfuse.session.id"))
    user_ids = (attributes.get("user.id"), attributes.get("langfuse.user.id"))
    failed = attributes.get("langfuse.observation.level") == "ERROR"
    message = text(attributes.get("langfuse.observation.status_message")) if failed else None
    observation = observation._replace(
        kind=kind,
        conversation_id=first_text(session_ids),
        user_id=first_text(user_ids),
        failed=observation.failed or failed,
        error=observation.error or message,
    )
    match kind:
        case "llm":
            return observation._replace(**_llm(attributes))
        case "tool":
            arguments = json_text(run_io.arguments(inputs))
            tool = observation._replace(name=span.name, arguments=arguments, result=json_text(outputs))
            return tool._replace(**run_io.tool_output(tool, outputs))
        case "agent" | "workflow":
            name = span.name if kind == "agent" else None
            return observation._replace(
                name=name,
                agent=name,
                user_input=run_io.user_input(_argument(inputs), topmost=topmost),
                response=run_io.response(outputs, topmost=topmost),
                run_input=run_io.user_input(_argument(inputs), topmost=True),
                run_output=run_io.response(outputs, topmost=True),
            )
    return observation


def _value(attributes: Mapping[str, Any], side: str, topmost: bool) -> Any:
    value = attributes.get(f"langfuse.observation.{side}")
    return parse_json(attributes.get(f"langfuse.trace.{side}") if value is None and topmost else value)


def _argument(value: Any) -> Any:
    """Return the one positional argument of a recorded call of a function, else its named arguments."""
    if not isinstance(value, dict) or value.keys() != _CALL:
        return value
    positional, named = value["args"], value["kwargs"]
    return positional[0] if isinstance(positional, list) and len(positional) == 1 and not named else named


def _llm(attributes: Mapping[str, Any]) -> dict[str, Any]:
    usage = json_object(attributes.get("langfuse.observation.usage_details"))
    return {
        "model": text(attributes.get("langfuse.observation.model.name")),
        **(_tokens(usage) if "input" in usage or "output" in usage else provider_values.tokens(usage)),
    }


def _tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of Langfuse's own usage, which leaves its details out of `input` and `output`.

    The total decides whether they are left out; without a total, details make the sums unknown.
    """
    inputs, outputs, total = (count(usage.get(name)) for name in ("input", "output", "total"))
    details = {name: number for name in usage if (number := count(usage[name])) is not None}
    more_in = sum(n for name, n in details.items() if name.startswith(("input_", "cache_")))
    more_out = sum(n for name, n in details.items() if name.startswith("output_"))
    if inputs is not None and outputs is not None and total == inputs + outputs + more_in + more_out:
        inputs, outputs = inputs + more_in, outputs + more_out
    elif (more_in or more_out) and (inputs is None or outputs is None or total != inputs + outputs):
        inputs = outputs = None
    counts = {
        "input_tokens": inputs,
        "output_tokens": outputs,
        "cached_input_tokens": _first(
            details, "input_cached_tokens", "input_cache_read", "cache_read_input_tokens"
        ),
        "reasoning_tokens": _first(details, "output_reasoning_tokens", "output_reasoning"),
        "cache_write_tokens": _first(details, "input_cache_creation", "cache_creation_input_tokens"),
    }
    return {name: number for name, number in counts.items() if number is not None}


def _first(counts: Mapping[str, int], *names: str) -> int | None:
    return next((counts[name] for name in names if name in counts), None)
