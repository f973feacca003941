"""OpenInference: the spans of Arize's instrumentations (LangChain, OpenAI agents, crewAI, LlamaIndex, …).

https://arize-ai.github.io/openinference/spec/semantic_conventions.html. `openinference.span.kind` is a span's
kind; a chain may be anything from a whole run to a function in it, so that only the topmost counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import declarations, langchain_values, llama_index_values, run_io
from spangrade.converters.spans.advice import STREAMED, Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.digests import conversation_digests
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.flattened import messages
from spangrade.converters.spans.joined_calls import declared_names, split_calls
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.observation import ToolResult
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import count, first_text, json_object, json_text, parse_json, text
from spangrade.tracer.span import LogRecord, Span

_KIND = "openinference.span.kind"
_CONVERSATION_IDS = ("session_id", "conversation_id", "thread_id")
_RANDOM_ID = re.compile(r"[0-9a-f-]{16,}")
# The names of smolagents' agents that were given none.
_SMOLAGENTS = frozenset({"CodeAgent", "ToolCallingAgent", "MultiStepAgent"})
# LlamaIndex's preparation of a call, which is a method of its models.
_NOT_CALLS = re.compile(r"\._prepare_\w+$")
# A tool by which a model ends its run.
_NOT_TOOLS = frozenset({"final_answer"})


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by OpenInference's attributes, and by the GenAI conventions what they lack."""
    attributes = with_events(span, logs)
    observation = langchain_values.without_control_flow(span, genai.read_attributes(span, attributes))
    metadata = json_object(attributes.get("metadata"))
    ids = (attributes.get("session.id"), observation.conversation_id, *map(metadata.get, _CONVERSATION_IDS))
    observation = observation._replace(conversation_id=first_text(ids))
    kind = text(attributes.get(_KIND))
    if kind == "LLM" and _NOT_CALLS.search(span.name) is None:
        return observation._replace(**_llm(observation, attributes))
    if kind == "TOOL" or (kind == "AGENT" and "tool.name" in attributes):
        return observation._replace(**_tool(span, observation, attributes))
    if kind in {"AGENT", "CHAIN"}:
        return observation._replace(**_run(span, observation, attributes, metadata))
    return observation


def _llm(observation: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("response.model_name", "model_name", "request.model_name")
    providers = (attributes.get("llm.provider"), attributes.get("llm.system"), observation.provider)
    changes: dict[str, Any] = {
        "kind": "llm",
        "provider": first_text(providers),
        "model": first_text(attributes.get(f"llm.{key}") for key in keys) or observation.model,
        "requested_model": text(attributes.get("llm.request.model_name")) or observation.requested_model,
    }
    output = parse_json(attributes.get("output.value"))
    if isinstance(output, dict):
        changes["call_key"] = text(output.get("id")) or observation.call_key
        changes |= langchain_values.model_output(output)
    for name, key in (
        ("input_tokens", "prompt"),
        ("output_tokens", "completion"),
        ("cached_input_tokens", "prompt_details.cache_read"),
        ("reasoning_tokens", "completion_details.reasoning"),
        ("cache_write_tokens", "prompt_details.cache_write"),
    ):
        if (tokens := count(attributes.get(f"llm.token_count.{key}"))) is not None:
            changes[name] = tokens
    if tools := declarations.listed_tools(attributes):
        changes["tool_declarations"] = tools
    inputs = list(map(llama_index_values.without_state, messages(attributes, "llm.input_messages.")))
    outputs = messages(attributes, "llm.output_messages.")
    for message in outputs:
        message["tool_calls"] = list(split_calls(message["tool_calls"], lambda: declared_names(attributes)))
    if inputs or outputs:
        calls = changes.get("tool_calls", ())
        exchange = read_exchange(inputs, outputs)
        if not exchange.tool_calls or ([c.name for c in calls] == [c.name for c in exchange.tool_calls]):
            exchange = exchange._replace(tool_calls=calls)  # with their ids
        exchange = exchange._replace(tool_results=_marked(exchange.tool_results, attributes))
        changes |= exchange._asdict()
        changes["system_instructions"] = observation.system_instructions or declarations.of_messages(inputs)
        if observation.conversation_id is None:
            changes["digests"] = conversation_digests(inputs, outputs)
    return changes


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


def _tool(span: Span, observation: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    value = parse_json(attributes.get("input.value"))
    output = run_io.python_value(parse_json(attributes.get("output.value")))
    name = text(attributes.get("tool.name")) or observation.name
    if name is None and span.name.startswith("handoff to "):  # OpenAI agents
        target = text(output) or span.name.removeprefix("handoff to ")
        return {"kind": "handoff", "agent": text(value), "handoff_to": target}
    if name is None or name in _NOT_TOOLS:
        return {"kind": "other"}
    schema = attributes.get("tool.parameters", attributes.get("tool.json_schema"))
    arguments = run_io.arguments(value, parse_json(schema))
    arguments = llama_index_values.without_objects(arguments)
    ids = (attributes.get("tool_call.id"), attributes.get("tool.id"), observation.call_id)
    tool = observation._replace(
        kind="tool",
        name=name,
        call_id=first_text(ids),
        arguments=observation.arguments if arguments is None else json_text(arguments),
        result=observation.result if output is None else json_text(output),
        handoff_to=run_io.delegated_to(name, arguments),
    )
    return tool._asdict() | run_io.tool_output(tool, output)


def _run(
    span: Span, observation: Reading, attributes: Mapping[str, Any], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    value = parse_json(attributes.get("input.value", attributes.get("crew_inputs")))
    output = parse_json(attributes.get("output.value"))
    topmost = span.parent_span_id is None
    name = _agent(span, observation, attributes, metadata)
    changes: dict[str, Any] = {
        "kind": "agent" if name else "workflow",
        "name": name,
        "agent": name,
        "user_input": observation.user_input or run_io.user_input(value, topmost=topmost),
        "response": observation.response or run_io.response(output, topmost=topmost),
        "declares_agent": text(metadata.get("lc_agent_name")),
        "run_input": run_io.user_input(value, topmost=True),
        "run_output": run_io.response(output, topmost=True),
    }
    is_graph = (
        span.name == "LangGraph" or "ls_integration" in metadata or langchain_values.holds_messages(output)
    )
    if is_graph and "langgraph_node" not in metadata and langchain_values.is_langchain(span, metadata):
        changes["state"] = langchain_values.state_writes(output, span.end_ns)
    return changes


def _agent(
    span: Span, observation: Reading, attributes: Mapping[str, Any], metadata: Mapping[str, Any]
) -> str | None:
    is_agent = attributes[_KIND] == "AGENT"
    if name := text(attributes.get("agent.name")) or observation.agent:
        return name
    if span.scope_name == llama_index_values.SCOPE:
        return llama_index_values.agent_of_step(span.name, attributes)
    if langchain_values.is_langchain(span, metadata):
        return langchain_values.agent_name(span.name, metadata, is_agent=is_agent)
    if not is_agent:
        return None
    if "smolagents.max_steps" in attributes and span.name.endswith(".run"):
        name = span.name.removesuffix(".run")
        return None if name in _SMOLAGENTS else name
    node = text(attributes.get("graph.node.name")) or text(attributes.get("graph.node.id"))
    return None if node is None or _RANDOM_ID.fullmatch(node) else node


DIALECT = Dialect(
    name="openinference",
    signs=Signs(attributes=frozenset({_KIND})),
    read=read,
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
    },
)
