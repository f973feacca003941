"""Langfuse's SDKs: `langfuse.observation.type` is a span's kind, its name is the agent's or the tool's.

Inputs and outputs are what the application or a wrapper of a model client put there: messages, a provider's
request, a text or, by Python's decorator, a function's `{"args": […], "kwargs": {…}}`. Python's wrapper of
OpenAI counts tokens as OpenAI does; others leave cached tokens out of `input`, and reasoning out of `output`.

https://langfuse.com/docs/observability/overview
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import cached_tokens, provider_values, run_io
from spangrade.converters.spans.advice import STREAMED, Advice
from spangrade.converters.spans.declarations import declared_tools
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import (
    count,
    first_text,
    json_object,
    json_text,
    objects,
    parse_json,
    text,
)
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


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (Langfuse has none)
    """Read a span by Langfuse's attributes."""
    attributes = span.attributes
    kind = _KINDS.get(text(attributes[_KIND]), "other")
    inputs, outputs = _value(attributes, "input"), _value(attributes, "output")
    declared, inputs = _without_declarations(inputs)
    own: dict[str, Any] = {semconv.OPERATION_NAME: genai.NO_STEP}
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
            tools = declared_tools(declared) if declared else observation.tool_declarations
            return observation._replace(tool_declarations=tools, **_llm(attributes))
        case "tool":
            arguments = json_text(run_io.arguments(inputs))
            tool = observation._replace(name=span.name, arguments=arguments, result=json_text(outputs))
            return tool._replace(**run_io.tool_output(tool, outputs))
        case "agent" | "workflow":
            name = span.name if kind == "agent" else _langchain_agent(span)
            given = _argument(inputs)
            return observation._replace(
                kind="agent" if name else "workflow",
                name=name,
                agent=name,
                user_input=run_io.user_input(given, topmost=False),
                response=run_io.response(outputs, topmost=False),
                run_input=run_io.user_input(given, topmost=True),
                run_output=run_io.response(outputs, topmost=True),
                only_topmost=attributes[_KIND] == "span",
            )
    return observation


def _value(attributes: Mapping[str, Any], side: str) -> Any:
    value = attributes.get(f"langfuse.observation.{side}")
    return parse_json(attributes.get(f"langfuse.trace.{side}") if value is None else value)


def _without_declarations(messages: Any) -> tuple[list[Any], Any]:
    """Return the tools' declarations that LangChain's callbacks put among the messages, and the messages."""
    if not isinstance(messages, list):
        return [], messages
    declared = [
        message["content"]
        for message in objects(messages)
        if message.get("role") == "tool" and json_object(message.get("content")).get("type") == "function"
    ]
    return declared, [m for m in messages if not (isinstance(m, dict) and m.get("content") in declared)]


def _langchain_agent(span: Span) -> str | None:
    """Return the name of the agent that a chain of LangChain runs; None if it is not an agent's own run."""
    name = parse_json(span.attributes.get("langfuse.observation.metadata.lc_agent_name"))
    return span.name if name == span.name else None


def _argument(value: Any) -> Any:
    """Return the one positional argument of a recorded call of a function, else its named arguments."""
    if not isinstance(value, dict) or value.keys() != _CALL:
        return value
    positional, named = value["args"], value["kwargs"]
    return positional[0] if isinstance(positional, list) and len(positional) == 1 and not named else named


def _llm(attributes: Mapping[str, Any]) -> dict[str, Any]:
    usage = json_object(attributes.get("langfuse.observation.usage_details"))
    model = text(attributes.get("langfuse.observation.model.name"))
    return {
        "model": model,
        **(_tokens(usage, model) if "input" in usage or "output" in usage else provider_values.tokens(usage)),
    }


def _tokens(usage: Mapping[str, Any], model: str | None) -> dict[str, Any]:
    """Return the tokens of Langfuse's own usage, which leaves its details out of `input` and `output`.

    They are left out where the total is the sum of all. Where it is that of `input` and `output`, the model's
    provider decides; any other total, or none, makes the sums unknown.
    """
    inputs, outputs, total = (count(usage.get(name)) for name in ("input", "output", "total"))
    details = {name: number for name in usage if (number := count(usage[name])) is not None}
    more_in = sum(n for name, n in details.items() if name.startswith(("input_", "cache_")))
    more_out = sum(n for name, n in details.items() if name.startswith("output_"))
    if inputs is not None and outputs is not None and total == inputs + outputs + more_in + more_out:
        inputs, outputs = inputs + more_in, outputs + more_out
        more_in = 0
    elif (more_in or more_out) and (inputs is None or outputs is None or total != inputs + outputs):
        inputs = outputs = None
    counts: dict[str, Any] = {
        "input_tokens": inputs,
        "output_tokens": outputs,
        "cached_input_tokens": _first(
            details, "input_cached_tokens", "input_cache_read", "cache_read_input_tokens"
        ),
        "reasoning_tokens": _first(details, "output_reasoning_tokens", "output_reasoning"),
        "cache_write_tokens": _first(details, "input_cache_creation", "cache_creation_input_tokens"),
    }
    if more_in:
        counts |= cached_tokens.placed("langfuse", {}, counts, model)
    return {name: number for name, number in counts.items() if number is not None}


def _first(counts: Mapping[str, int], *names: str) -> int | None:
    return next((counts[name] for name in names if name in counts), None)


DIALECT = Dialect(
    name="langfuse",
    signs=Signs(attributes=frozenset({_KIND})),
    read=read,
    advice=Advice(
        name="Langfuse",
        content="set input and output on the observations, and do not set "
        "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=false",
        conversation="set the session with propagate_attributes(session_id=…), or update_trace(session_id=…)",
        agents='record the agent as an observation of type agent: @observe(as_type="agent")',
        tools='record the tool as an observation of type tool: @observe(as_type="tool")',
        model_calls="wrap the model client (langfuse.openai, observeOpenAI), or record generations: "
        '@observe(as_type="generation")',
        tokens="set usage_details on the generation; " + STREAMED,
    ),
)
