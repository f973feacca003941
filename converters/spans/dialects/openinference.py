"""OpenInference: the spans of Arize's instrumentations (LangChain, OpenAI agents, crewAI, LlamaIndex, …).

https://arize-ai.github.io/openinference/spec/semantic_conventions.html. `openinference.span.kind` is a span's
kind; a chain may be anything from a whole run to a function in it, so that only the topmost counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans import declarations, langchain_values, provider_values, run_io
from spangrade.converters.spans.dialect import STREAMED, Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.flattened import messages
from spangrade.converters.spans.joined_calls import declared_names, split_calls
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.observation import (
    Handoff,
    Kind,
    MessageExchange,
    ModelCall,
    RunSpan,
    ToolResult,
    ToolUse,
    changed,
    named_run,
)
from spangrade.converters.spans.parts import is_answer
from spangrade.converters.spans.values import (
    count,
    first_identity,
    first_text,
    json_object,
    json_text,
    parse_json,
    text,
)
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_KIND = "openinference.span.kind"
_SESSION_IDS = ("session.id", semconv.CONVERSATION_ID, "gen_ai.session.id", "gen_ai.thread.id")
_CONVERSATION_IDS = ("session_id", "conversation_id", "thread_id")
_HANDOFF = "handoff to "
_RANDOM_ID = re.compile(r"[0-9a-f-]{16,}")
# The names of smolagents' agents that were given none.
_SMOLAGENTS = frozenset({"CodeAgent", "ToolCallingAgent", "MultiStepAgent"})
# LlamaIndex's preparation of a call, which is a method of its models.
_NOT_CALLS = re.compile(r"\._prepare_\w+$")
# LlamaIndex's workflows of agents: names in the repr of events, and wrapped prompts.
_LLAMA_INDEX = "openinference.instrumentation.llama_index"
_STEP = ".run_agent_step"
_CURRENT_AGENT = re.compile(r"current_agent_name='((?:[^'\\]|\\.)+)'\)$")
# https://github.com/run-llama/llama_index: DEFAULT_STATE_PROMPT of its agents' workflows.
_WITH_STATE = re.compile(r"Current state:\n.*?\n\nCurrent message:\n(.*)\n", re.DOTALL)
_OBJECT = re.compile(r"<[\w.]+ object at 0x[0-9a-f]+>")
_MODELS = ("llm.response.model_name", "llm.model_name", "llm.request.model_name")
_TOKENS = {
    "input_tokens": "llm.token_count.prompt",
    "output_tokens": "llm.token_count.completion",
    "cached_input_tokens": "llm.token_count.prompt_details.cache_read",
    "reasoning_tokens": "llm.token_count.completion_details.reasoning",
    "cache_write_tokens": "llm.token_count.prompt_details.cache_write",
}
_COUNTING = frozenset({*_TOKENS.values(), *_MODELS})


def _kind(span: Span, attributes: Attributes) -> Kind | None:
    word = attributes.get(_KIND)
    if word == "LLM":
        return None if _NOT_CALLS.search(span.name) else "llm"
    if word == "TOOL" or (word == "AGENT" and "tool.name" in attributes):
        if _tool_name(attributes) is None and span.name.startswith(_HANDOFF):
            return "handoff"  # OpenAI agents
        return "other" if is_answer(_tool_name(attributes) or "") else "tool"
    if word in ("AGENT", "CHAIN"):
        return "agent" if genai.kind_of_span(span, attributes) == "agent" else "workflow"
    return None


def _tool_name(attributes: Attributes) -> str | None:
    return first_text(map(attributes.get, ("tool.name", semconv.TOOL_NAME)))


def _values(_: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    metadata = json_object(attributes.get("metadata"))
    session = first_identity((*map(attributes.get, _SESSION_IDS), *map(metadata.get, _CONVERSATION_IDS)))
    own: dict[str, Any] = {semconv.CONVERSATION_ID: session} if session else {}
    if kind == "tool":
        own[semconv.TOOL_NAME] = _tool_name(attributes)
    elif kind == "llm":
        inputs = list(map(_without_state, messages(attributes, "llm.input_messages.")))
        outputs = messages(attributes, "llm.output_messages.")
        for message in outputs:
            calls = split_calls(message["tool_calls"], lambda: declared_names(attributes))
            message["tool_calls"] = list(calls)
        if inputs or outputs:
            own |= {semconv.INPUT_MESSAGES: inputs, semconv.OUTPUT_MESSAGES: outputs}
    return own


def _model_call(call: ModelCall, _: Span, attributes: Attributes) -> ModelCall:
    providers = (attributes.get("llm.provider"), attributes.get("llm.system"), call.provider)
    changes: dict[str, Any] = {
        "provider": first_text(providers),
        "model": first_text(map(attributes.get, _MODELS)) or call.model,
        "requested_model": text(attributes.get("llm.request.model_name")) or call.requested_model,
    }
    output = parse_json(attributes.get("output.value"))
    if isinstance(output, dict):
        changes["call_key"] = text(output.get("id")) or call.call_key
        changes |= langchain_values.model_output(output)
    changes |= _counts(attributes)
    if tools := declarations.listed_tools(attributes):
        changes["tool_declarations"] = tools
    exchange, calls = _with_items(call.exchange, output), changes.pop("tool_calls", ())
    if not exchange.tool_calls or [c.name for c in calls] == [c.name for c in exchange.tool_calls]:
        exchange = exchange._replace(tool_calls=calls)  # with their ids
    if exchange.code_runs:
        changes["code_executions"] = exchange.code_runs
    exchange = exchange._replace(tool_results=_marked(exchange.tool_results, attributes))
    return changed(call._replace(exchange=exchange), **changes)


def _counts(attributes: Attributes) -> dict[str, int]:
    counts = ((field, count(attributes.get(name))) for field, name in _TOKENS.items())
    return {field: number for field, number in counts if number is not None}


def _with_items(exchange: MessageExchange, output: Any) -> MessageExchange:
    """Return what a model answered with what its own response has and the flattened messages leave out.

    These are the calls that the provider ran, those of tools that are no functions, and unknown parts.
    """
    if not isinstance(output, dict) or not isinstance(output.get("output", output.get("content")), list):
        return exchange
    own = read_exchange(None, provider_values.response_messages(output))
    left = [call.name for call in exchange.tool_calls]
    calls = list(exchange.tool_calls)
    for call in own.tool_calls:
        if call.name in left:
            left.remove(call.name)
        else:
            calls.append(call)
    return exchange._replace(
        tool_calls=tuple(calls), unread=own.unread or exchange.unread, code_runs=own.code_runs
    )


def _marked(results: tuple[ToolResult, ...], attributes: Mapping[str, Any]) -> tuple[ToolResult, ...]:
    """Return tool results with the marks of failures in Anthropic's own request, which the messages lack."""
    request = attributes.get("input.value")
    if not results or not isinstance(request, str) or "is_error" not in request:
        return results
    own = read_exchange(json_object(request).get("messages"), None).tool_results
    marks = {result.call_id: result.failed for result in own if result.call_id}
    return tuple(
        result._replace(failed=marks.get(result.call_id or "")) if result.failed is None else result
        for result in results
    )


def _handoff(handoff: Handoff, span: Span, attributes: Attributes) -> Handoff:
    source, target = (text(parse_json(attributes.get(f"{side}.value"))) for side in ("input", "output"))
    return handoff._replace(agent=source, handoff_to=target or span.name.removeprefix(_HANDOFF))


def _tool(call: ToolUse, _: Span, attributes: Attributes) -> ToolUse:
    value = run_io.tool_input(attributes.get("input.value"))
    output = run_io.python_value(parse_json(attributes.get("output.value")))
    schema = attributes.get("tool.parameters", attributes.get("tool.json_schema"))
    arguments = run_io.arguments(value, parse_json(schema))
    arguments = _without_objects(arguments)
    call = call._replace(
        call_id=first_text((attributes.get("tool_call.id"), attributes.get("tool.id"), call.call_id)),
        arguments=call.arguments if arguments is None else json_text(arguments),
        result=call.result if output is None else json_text(output),
        handoff_to=run_io.delegated_to(call.name or "", arguments),
    )
    return run_io.with_tool_output(call, output)


def _run(run: RunSpan, span: Span, attributes: Attributes) -> RunSpan:
    metadata = json_object(attributes.get("metadata"))
    value = parse_json(attributes.get("input.value", attributes.get("crew_inputs")))
    output = parse_json(attributes.get("output.value"))
    run = named_run(run, _agent(run, span, attributes, metadata))
    run = run_io.with_io(run, value, output, topmost=span.parent_span_id is None)
    if not _COUNTING.isdisjoint(attributes) and "smolagents.max_steps" not in attributes:  # of its life
        model = first_text(map(attributes.get, _MODELS)) or run.model
        run = changed(run, model=model, only_alone=True, **_counts(attributes))
    if not langchain_values.is_langchain(span, metadata):
        return run
    is_graph, is_node = span.name == "LangGraph" or "ls_integration" in metadata, "langgraph_node" in metadata
    return langchain_values.with_state(run, output, span.end_ns, is_graph=is_graph, is_node=is_node)


def _agent(run: RunSpan, span: Span, attributes: Attributes, metadata: Mapping[str, Any]) -> str | None:
    is_agent = attributes[_KIND] == "AGENT"
    if name := text(attributes.get("agent.name")) or run.agent:
        return name
    if span.scope_name == _LLAMA_INDEX:
        return _agent_of_step(span.name, attributes)
    if langchain_values.is_langchain(span, metadata):
        return langchain_values.agent_name(span.name, metadata, is_agent=is_agent)
    if not is_agent:
        return None
    if "smolagents.max_steps" in attributes and span.name.endswith(".run"):
        name = span.name.removesuffix(".run")
        return None if name in _SMOLAGENTS else name
    node = text(attributes.get("graph.node.name")) or text(attributes.get("graph.node.id"))
    return None if node is None or _RANDOM_ID.fullmatch(node) else node


def _agent_of_step(span_name: str, attributes: Mapping[str, Any]) -> str | None:
    """Return the agent that a span of a step of a workflow runs; None for every other span."""
    if not span_name.endswith(_STEP):
        return None
    event = text(json_object(attributes.get("input.value")).get("ev"))
    found = _CURRENT_AGENT.search(event[-300:]) if event else None
    return found[1] if found else None


def _without_state(message: dict[str, Any]) -> dict[str, Any]:
    """Return a user's message without the state in which LlamaIndex wraps it."""
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, str):
        return message
    found = _WITH_STATE.fullmatch(content)
    return {**message, "content": found[1]} if found else message


def _without_objects(arguments: Any) -> Any:
    """Return a tool's arguments without the objects that LlamaIndex adds, such as the workflow's context."""
    if not isinstance(arguments, dict):
        return arguments
    return {
        name: value
        for name, value in arguments.items()
        if not (isinstance(value, str) and _OBJECT.fullmatch(value))
    }


DIALECT = Dialect(
    name="openinference",
    signs=Signs(attributes=frozenset({_KIND})),
    kind=_kind,
    values=_values,
    fixes={
        "llm": _model_call,
        "handoff": _handoff,
        "tool": _tool,
        "agent": _run,
        "workflow": _run,
    },
    before=(
        "pydantic-ai",
        "strands",
        "traceloop",
    ),
    advice=Advice(
        name="OpenInference",
        content="unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and the like",
        conversation="wrap the agent in using_session(session_id=…); in TypeScript: "
        "setSession(context.active(), { sessionId })",
        agents="record agent.name on a span of kind AGENT around each agent's run: @tracer.agent(name=…)",
        tools="record a span of kind TOOL around each tool call: @tracer.tool(name=…)",
        model_calls="instrument the model client too, by its openinference-instrumentation-… package",
        tokens=STREAMED,
    ),
    advice_by_scope={
        "openinference.instrumentation.beeai": Advice(
            name="BeeAI by OpenInference",
            agents="give the agent a name: RequirementAgent(name=…)",
            tokens="BeeAI counts no cached and no reasoning tokens: instrument what calls the model too, by "
            "openinference-instrumentation-litellm",
        ),
        "openinference.instrumentation.crewai": Advice(
            name="crewAI by OpenInference",
            model_calls="instrument what crewAI calls the models with too: "
            "openinference-instrumentation-litellm, or the package of the provider's client",
        ),
        "openinference.instrumentation.dspy": Advice(
            name="DSPy by OpenInference",
            tokens="instrument what calls the models too: openinference-instrumentation-litellm",
        ),
    },
)
