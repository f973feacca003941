"""OpenLLMetry: the spans of Traceloop's instrumentations (LangChain, OpenAI agents, crewAI, model clients).

https://www.traceloop.com/docs/openllmetry/contributing/semantic-conventions. Newer ones follow the GenAI
conventions, older ones flatten messages (`gen_ai.prompt.0.content`). With LangChain, inputs and outputs are
the payloads of its callbacks: `{"inputs": {...}, "tags": [...], "kwargs": {"tool_call_id": ...}}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import declarations, langchain_values, run_io
from spangrade.converters.spans.advice import CLIENT, STREAMED, Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.digests import conversation_digests
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.flattened import numbered, plain_message
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import (
    count,
    first_text,
    json_object,
    json_text,
    parse_json,
    text,
    texts,
)
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_PROPERTIES = "traceloop.association.properties."
_CONVERSATION_IDS = ("session_id", "conversation_id", "thread_id", "chat_id")
_OWN = {_PROPERTIES + name for name in _CONVERSATION_IDS}
_MESSAGES = frozenset({"gen_ai.prompt.0.role", "gen_ai.completion.0.role"})
_OWN |= {"traceloop.span.kind", "llm.request.type", *_MESSAGES}
_OWN |= {"gen_ai.workflow.nodes", "langgraph.command.goto_node"}
_SCOPES = frozenset({"opentelemetry.instrumentation.langchain", "opentelemetry.instrumentation.crewai"})
_KINDS: dict[str | None, Kind] = {"workflow": "workflow", "agent": "agent", "task": "other", "tool": "tool"}
# The node that calls the model, in the graph that LangChain makes of an agent.
# What LangChain's callbacks in TypeScript take for a workflow: the parts that a graph is made of.
_PARTS = "Runnable"
# A class of LangChain's tools in TypeScript, whose name stands in place of a tool's.
_TOOL_CLASSES = frozenset({"DynamicStructuredTool", "DynamicTool", "StructuredTool", "Tool"})
# The name of a graph that was given none.
_UNNAMED = frozenset({"LangGraph"})
_MODEL_NODES = frozenset({"model", "agent"})


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the conventions, then by the attributes that Traceloop has instead."""
    attributes = with_events(span, logs)
    observation = genai.read_attributes(span, attributes)
    agent = text(attributes.get(_PROPERTIES + "lc_agent_name"))
    ids = (attributes.get(_PROPERTIES + key) for key in _CONVERSATION_IDS)
    observation = observation._replace(
        kind=_kind(observation, attributes),
        agent=agent or observation.agent,
        declares_agent=agent,
        conversation_id=observation.conversation_id or first_text(ids),
    )
    observation = langchain_values.without_control_flow(span, observation)
    entity = attributes.get("traceloop.entity.name")
    match observation.kind:
        case "workflow" | "other" if agent and agent == entity:
            changes = _run(span, observation, attributes)
            return observation._replace(**changes, kind="agent", name=agent)
        case "agent":
            run = _run(span, observation, attributes)
            given = {key: run[key] for key in ("run_input", "run_output")}
            return observation._replace(**given, name=observation.name or text(entity))
        case "workflow":
            named = "gen_ai.workflow.nodes" in attributes and observation.agent not in _UNNAMED
            run = _run(span, observation, attributes)
            return observation._replace(**run, name=None, agent=observation.agent if named else None)
        case "other" if logs:  # with LangChain, a call's messages may be events of the task around it
            exchange = read_exchange(attributes.get(semconv.INPUT_MESSAGES), None)
            if exchange.user_input:
                return observation._replace(kind="workflow", user_input=exchange.user_input, name=None)
        case "tool":
            return _tool(observation, attributes)
        case "handoff":
            return _handoff(observation, attributes)
        case "llm":
            return observation._replace(**_llm(observation, attributes))
    return observation


def _kind(observation: Reading, attributes: Mapping[str, Any]) -> Kind:
    kind = text(attributes.get("traceloop.span.kind"))
    name = text(attributes.get("traceloop.workflow.name")) or ""
    if kind == "handoff" or "langgraph.command.goto_node" in attributes:
        return "handoff"
    if kind == "task" and observation.kind == "tool":  # LangChain's callbacks in TypeScript
        return "tool"
    if kind == "workflow" and name.startswith(_PARTS):
        return "other"
    if observation.kind == "llm":  # on LlamaIndex, a call of a model is a task, too
        return "llm"
    if kind in _KINDS:
        return _KINDS[kind]
    if kind is None and observation.kind == "other" and _is_call(observation, attributes):
        return "llm"
    nodes = texts(parse_json(attributes.get("gen_ai.workflow.nodes")))
    if observation.kind == "agent" and (
        observation.name is None or (nodes and _MODEL_NODES.isdisjoint(nodes))
    ):
        return "workflow"
    return observation.kind


def _is_call(observation: Reading, attributes: Mapping[str, Any]) -> bool:
    """Return whether a span without a kind has a model and messages (instrumentations copied from these)."""
    return observation.model is not None and not _MESSAGES.isdisjoint(attributes)


def _run(span: Span, observation: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    value, output = _payload(attributes, "input", "inputs"), _payload(attributes, "output", "outputs")
    topmost = span.parent_span_id is None or attributes.get("traceloop.span.kind") == "workflow"
    is_graph = _PROPERTIES + "ls_integration" in attributes or langchain_values.holds_messages(output)
    is_whole = _PROPERTIES + "langgraph_node" not in attributes
    metadata = json_object(attributes.get("traceloop.entity.input")).get("metadata")
    ids = map(metadata.get, _CONVERSATION_IDS) if isinstance(metadata, dict) else ()
    calls, results = langchain_values.new_tool_messages(output)
    return {
        "tool_calls": observation.tool_calls or calls,
        "tool_results": observation.tool_results or results,
        "conversation_id": observation.conversation_id or first_text(ids),
        "user_input": observation.user_input or run_io.user_input(value, topmost=topmost),
        "response": observation.response or run_io.response(output, topmost=topmost),
        "run_input": run_io.user_input(value, topmost=True),
        "run_output": run_io.response(output, topmost=True),
        "state": langchain_values.state_writes(output, span.end_ns)
        if is_graph and is_whole
        else observation.state,
    }


def _tool(observation: Reading, attributes: Mapping[str, Any]) -> Reading:
    value = parse_json(attributes.get("traceloop.entity.input", attributes.get("gen_ai.tool.call.arguments")))
    output = parse_json(attributes.get("traceloop.entity.output", attributes.get("gen_ai.tool.call.result")))
    call_id = observation.call_id
    if isinstance(value, dict) and value.keys() == {"args"} and isinstance(value["args"], list):
        value = parse_json(value["args"][0]) if len(value["args"]) == 1 else None  # TypeScript's callbacks
    if isinstance(value, dict) and "input_str" in value:
        if isinstance(context := value.get("kwargs"), dict):
            call_id = call_id or text(context.get("tool_call_id"))
        value = value["inputs"] if isinstance(value.get("inputs"), dict) else parse_json(value["input_str"])
    if isinstance(output, dict) and output.keys() == {"output", "kwargs"}:
        output = parse_json(output["output"])
    output = run_io.python_value(output)
    # In TypeScript, a tool's span has the name of its agent, too.
    entity = text(attributes.get("traceloop.entity.name"))
    is_class = entity in _TOOL_CLASSES
    name = None if is_class else first_text((attributes.get(semconv.TOOL_NAME), entity))
    name = name or (observation.name if observation.kind == "tool" and not is_class else None)
    tool = observation._replace(
        kind="tool" if name or is_class else "other",
        name=name,
        call_id=call_id,
        arguments=json_text(run_io.arguments(value)),
        result=json_text(output),
    )
    return tool._replace(**run_io.tool_output(tool, output))


def _handoff(observation: Reading, attributes: Mapping[str, Any]) -> Reading:
    target = attributes.get("gen_ai.handoff.to_agent") or attributes.get("langgraph.command.goto_node")
    source = text(attributes.get("gen_ai.handoff.from_agent"))
    return observation._replace(agent=source, handoff_to=text(target))


def _llm(observation: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if observation.input_tokens is None:
        changes["input_tokens"] = count(attributes.get("llm.usage.prompt_tokens"))
    if observation.output_tokens is None:
        changes["output_tokens"] = count(attributes.get("llm.usage.completion_tokens"))
    if tools := declarations.listed_functions(attributes):
        changes["tool_declarations"] = tools
    inputs = [plain_message(m) for m in numbered(attributes, "gen_ai.prompt.")]
    outputs = [plain_message(m, "assistant") for m in numbered(attributes, "gen_ai.completion.")]
    if inputs or outputs:
        changes |= read_exchange(inputs, outputs)._asdict()
        changes["system_instructions"] = observation.system_instructions or declarations.of_messages(inputs)
        if observation.conversation_id is None:
            changes["digests"] = conversation_digests(inputs, outputs)
    return changes


def _payload(attributes: Mapping[str, Any], direction: str, key: str) -> Any:
    value = parse_json(attributes.get(f"traceloop.entity.{direction}"))
    if isinstance(value, dict) and key in value:
        return value[key]
    if isinstance(value, dict) and "kwargs" in value and "args" in value:
        args = value["args"]
        return args[0] if isinstance(args, list) and len(args) == 1 else value["kwargs"]
    return value


DIALECT = Dialect(
    name="traceloop",
    signs=Signs(scopes=_SCOPES, attributes=frozenset(_OWN)),
    read=read,
    before=(
        "ag2",
        "autogen",
        "bedrock",
        "claude-code",
        "genkit",
        "haystack",
        "langfuse",
        "langsmith",
        "mlflow",
        "openai-agents",
        "pipecat",
        "spring-ai",
    ),
    advice=Advice(
        name="Traceloop",
        content="unset TRACELOOP_TRACE_CONTENT=false",
        conversation='call Traceloop.set_association_properties({"session_id": …}); in TypeScript: '
        "withAssociationProperties({ session_id }, …)",
        agents="decorate the agent with @agent(name=…); in TypeScript: withAgent({ name }, …)",
        tools="decorate the tool with @tool(name=…); in TypeScript: withTool({ name }, …)",
        model_calls="do not leave the model client out by Traceloop.init(instruments=…, block_instruments=…)",
        tokens="set should_enrich_metrics=True in Traceloop.init(), or " + STREAMED,
    ),
    advice_by_scope={
        "opentelemetry.instrumentation.anthropic": CLIENT._replace(
            name="Anthropic by Traceloop", content="unset TRACELOOP_TRACE_CONTENT=false", tokens=None
        ),
    },
)
