"""Langfuse's SDKs: `langfuse.observation.type` is a span's kind, its name is the agent's or the tool's.

Inputs and outputs are what the application or a wrapper of a model client put there: messages, a provider's
request, a text or, by Python's decorator, a function's `{"args": […], "kwargs": {…}}`. Python's wrapper of
OpenAI counts tokens as OpenAI does; others leave cached tokens out of `input`, and reasoning out of `output`.

https://langfuse.com/docs/observability/overview
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans import provider_values, token_counts
from spangrade.converters.spans.agents import without_operation
from spangrade.converters.spans.declarations import declared_tools
from spangrade.converters.spans.dialect import STREAMED, Advice, Attributes, Dialect, Signs, kind_by
from spangrade.converters.spans.observation import (
    Kind,
    ModelCall,
    Observation,
    RunSpan,
    changed,
    named_run,
)
from spangrade.converters.spans.outcomes import is_interruption
from spangrade.converters.spans.values import (
    count,
    first_identity,
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
_INPUTS = ("langfuse.observation.input", "langfuse.trace.input")
_DETAILS = {
    "cached_input_tokens": ("input_cached_tokens", "input_cache_read", "cache_read_input_tokens"),
    "reasoning_tokens": ("output_reasoning_tokens", "output_reasoning"),
    "cache_write_tokens": ("input_cache_creation", "cache_creation_input_tokens"),
}


def _values(_: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    declared, given = _without_declarations(attributes) if kind == "llm" else ([], None)
    return {
        semconv.CONVERSATION_ID: first_identity(map(attributes.get, ("session.id", "langfuse.session.id"))),
        semconv.USER_ID: first_text(map(attributes.get, ("user.id", "langfuse.user.id"))),
        **({semconv.INPUT_MESSAGES: provider_values.request_messages(given) or None} if declared else {}),
    }


def _any(observation: Observation, _: Span, attributes: Attributes) -> Observation:
    message = text(attributes.get("langfuse.observation.status_message"))
    if attributes.get("langfuse.observation.level") != "ERROR" and not is_interruption(message):
        return observation
    error = observation.failure and observation.failure.error
    return changed(observation, failed=True, error=error or message)


def _model_call(call: ModelCall, __: Span, attributes: Attributes) -> ModelCall:
    declared, _ = _without_declarations(attributes)
    usage = json_object(attributes.get("langfuse.observation.usage_details"))
    model = text(attributes.get("langfuse.observation.model.name"))
    is_own = "input" in usage or "output" in usage
    counts = _tokens(usage, model) if is_own else provider_values.tokens(usage)
    return changed(
        call, model=model, tool_declarations=declared_tools(declared) if declared else None, **counts
    )


def _run(run: RunSpan, span: Span, attributes: Attributes) -> RunSpan:
    named = named_run(
        run, without_operation(span.name) if run.is_agent or _is_langchains_agent(span) else None
    )
    return changed(named, only_topmost=attributes[_KIND] == "span")


def _without_declarations(attributes: Attributes) -> tuple[list[Any], Any]:
    """Return the tools' declarations that LangChain's callbacks put among the messages, and the messages."""
    messages = parse_json(attributes.get(_INPUTS[0], attributes.get(_INPUTS[1])))
    declared = [
        message["content"]
        for message in objects(messages)
        if message.get("role") == "tool" and json_object(message.get("content")).get("type") == "function"
    ]
    if not declared:
        return [], messages
    return declared, [m for m in messages if not (isinstance(m, dict) and m.get("content") in declared)]


def _is_langchains_agent(span: Span) -> bool:
    """Return whether a chain of LangChain is an agent's own run."""
    return bool(parse_json(span.attributes.get("langfuse.observation.metadata.lc_agent_name")) == span.name)


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
        counts |= token_counts.placed("langfuse", {}, counts, model)
    return known(counts)


DIALECT = Dialect(
    name="langfuse",
    signs=Signs(attributes=frozenset({_KIND})),
    kind=kind_by(_KIND, _KINDS, "other"),
    inputs=_INPUTS,
    outputs=("langfuse.observation.output", "langfuse.trace.output"),
    named_by_span=frozenset({"tool"}),
    values=_values,
    fixes={None: _any, "llm": _model_call, "agent": _run, "workflow": _run},
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
