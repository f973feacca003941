"""Langfuse's SDKs: `langfuse.observation.type` is a span's kind, its name is the agent's or the tool's.

Inputs and outputs are what the application or a wrapper of a model client put there: messages, a provider's
request, a text or, by Python's decorator, a function's `{"args": […], "kwargs": {…}}`. Python's wrapper of
OpenAI counts tokens as OpenAI does; others leave cached tokens out of `input`, and reasoning out of `output`.

https://langfuse.com/docs/observability/overview
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans import cached_tokens, provider_values, run_io
from spangrade.converters.spans.advice import STREAMED, Advice
from spangrade.converters.spans.declarations import declared_tools
from spangrade.converters.spans.dialect import Attributes, Dialect, Signs, kind_by
from spangrade.converters.spans.observation import (
    Kind,
    ModelCall,
    Observation,
    RunSpan,
    ToolUse,
    changed,
    named_run,
)
from spangrade.converters.spans.values import (
    count,
    first_of,
    first_text,
    json_object,
    known,
    objects,
    parse_json,
    text,
)
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_KIND = "langfuse.observation.type"
_KINDS: dict[str | None, Kind] = {
    "agent": "agent",
    "chain": "workflow",
    "generation": "llm",
    "span": "workflow",
    "tool": "tool",
}
_CALL = {"args", "kwargs"}
_DETAILS = {
    "cached_input_tokens": ("input_cached_tokens", "input_cache_read", "cache_read_input_tokens"),
    "reasoning_tokens": ("output_reasoning_tokens", "output_reasoning"),
    "cache_write_tokens": ("input_cache_creation", "cache_creation_input_tokens"),
}


def _values(span: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    own: dict[str, Any] = {
        semconv.CONVERSATION_ID: first_text(map(attributes.get, ("session.id", "langfuse.session.id"))),
        semconv.USER_ID: first_text(map(attributes.get, ("user.id", "langfuse.user.id"))),
    }
    inputs, outputs = _value(attributes, "input"), _value(attributes, "output")
    if kind == "llm":
        own |= provider_values.exchange(_without_declarations(inputs)[1], outputs)
    elif kind == "tool":
        own |= {semconv.TOOL_NAME: span.name, semconv.TOOL_CALL_RESULT: outputs}
        own[semconv.TOOL_CALL_ARGUMENTS] = run_io.arguments(inputs)
    return own


def _any(observation: Observation, _: Span, attributes: Attributes) -> Observation:
    if attributes.get("langfuse.observation.level") != "ERROR":
        return observation
    error = observation.failure and observation.failure.error
    message = text(attributes.get("langfuse.observation.status_message"))
    return changed(observation, failed=True, error=error or message)


def _model_call(call: ModelCall, _: Span, attributes: Attributes) -> ModelCall:
    declared, _inputs = _without_declarations(_value(attributes, "input"))
    usage = json_object(attributes.get("langfuse.observation.usage_details"))
    model = text(attributes.get("langfuse.observation.model.name"))
    is_own = "input" in usage or "output" in usage
    counts = _tokens(usage, model) if is_own else provider_values.tokens(usage)
    return changed(
        call, model=model, tool_declarations=declared_tools(declared) if declared else None, **counts
    )


def _tool(call: ToolUse, _: Span, attributes: Attributes) -> ToolUse:
    return run_io.with_tool_output(call, _value(attributes, "output"))


def _run(run: RunSpan, span: Span, attributes: Attributes) -> RunSpan:
    _declared, inputs = _without_declarations(_value(attributes, "input"))
    named = named_run(run, span.name if run.is_agent or _is_langchains_agent(span) else None)
    named = run_io.with_io(named, _argument(inputs), _value(attributes, "output"))
    return changed(named, only_topmost=attributes[_KIND] == "span")


def _value(attributes: Attributes, side: str) -> Any:
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


def _is_langchains_agent(span: Span) -> bool:
    """Return whether a chain of LangChain is an agent's own run."""
    return bool(parse_json(span.attributes.get("langfuse.observation.metadata.lc_agent_name")) == span.name)


def _argument(value: Any) -> Any:
    """Return the one positional argument of a recorded call of a function, else its named arguments."""
    if not isinstance(value, dict) or value.keys() != _CALL:
        return value
    positional, named = value["args"], value["kwargs"]
    return positional[0] if isinstance(positional, list) and len(positional) == 1 and not named else named


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
        **{field: first_of(details, names) for field, names in _DETAILS.items()},
    }
    if more_in:
        counts |= cached_tokens.placed("langfuse", {}, counts, model)
    return known(counts)


DIALECT = Dialect(
    name="langfuse",
    signs=Signs(attributes=frozenset({_KIND})),
    kind=kind_by(_KIND, _KINDS, "other"),
    values=_values,
    fixes={None: _any, "llm": _model_call, "tool": _tool, "agent": _run, "workflow": _run},
    alone=True,
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
