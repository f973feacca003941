"""OpenLLMetry: the spans of Traceloop's instrumentations (LangChain, OpenAI agents, crewAI, model clients).

https://www.traceloop.com/docs/openllmetry/contributing/semantic-conventions. Newer ones follow the GenAI
conventions, older ones flatten messages (`gen_ai.prompt.0.content`). With LangChain, inputs and outputs are
the payloads of its callbacks: `{"inputs": {...}, "tags": [...], "kwargs": {"tool_call_id": ...}}`.
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans import langchain_values, run_io
from spangrade.converters.spans.dialect import CLIENT, STREAMED, Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.flattened import numbered, plain_message
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.observation import (
    Handoff,
    Kind,
    MessageExchange,
    Observation,
    RunSpan,
    Structure,
    ToolUse,
    changed,
)
from spangrade.converters.spans.values import (
    first_identity,
    first_text,
    json_object,
    json_text,
    parse_json,
    text,
    texts,
)
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_ENTITY = "traceloop.entity.name"
_PROPERTIES = "traceloop.association.properties."
_CONVERSATION_IDS = ("session_id", "conversation_id", "thread_id", "chat_id")
_AGENT = _PROPERTIES + "lc_agent_name"
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


def _kind(span: Span, attributes: Attributes) -> Kind:
    kind = text(attributes.get("traceloop.span.kind"))
    name = text(attributes.get("traceloop.workflow.name")) or ""
    if kind == "handoff" or "langgraph.command.goto_node" in attributes:
        return "handoff"
    known = genai.kind_of_span(span, attributes)
    if kind == "task" and known == "tool":  # LangChain's callbacks in TypeScript
        return "tool"
    if kind == "workflow" and name.startswith(_PARTS):
        return "other"
    if known == "llm":  # on LlamaIndex, a call of a model is a task, too
        return "llm"
    agent = text(attributes.get(_AGENT))
    if kind in _KINDS:
        known = _KINDS[kind]
    elif kind is None and known == "other" and _is_call(attributes):
        known = "llm"
    elif known == "agent":
        nodes = texts(parse_json(attributes.get("gen_ai.workflow.nodes")))
        is_named = genai.agent_name(span, attributes) is not None
        if not is_named or (nodes and _MODEL_NODES.isdisjoint(nodes)):
            known = "workflow"
    return "agent" if known in ("workflow", "other") and agent and _names_agent(attributes) else known


def _is_call(attributes: Attributes) -> bool:
    """Return whether a span without a kind has a model and messages (instrumentations copied from these)."""
    models = (semconv.RESPONSE_MODEL, semconv.REQUEST_MODEL)
    return any(text(attributes.get(name)) for name in models) and not _MESSAGES.isdisjoint(attributes)


def _names_agent(attributes: Attributes) -> bool:
    """Return whether a run is that of the agent which LangChain declares on it."""
    return attributes.get(_AGENT) == attributes.get(_ENTITY)


def _any(observation: Observation, span: Span, attributes: Attributes) -> Observation:
    if not isinstance(observation, Handoff):
        observation = observation._replace(agent=text(attributes.get(_AGENT)) or observation.agent)
    said = read_exchange(attributes.get(semconv.INPUT_MESSAGES), None).user_input
    if isinstance(observation, Structure) and said and semconv.INPUT_MESSAGES not in span.attributes:
        # With LangChain, a call's messages may be events of the task around it.
        return RunSpan(*observation, exchange=MessageExchange(said))
    return observation


def _agent(run: RunSpan, span: Span, attributes: Attributes) -> RunSpan:
    if _names_agent(attributes):
        return _run(run, span, attributes)._replace(name=run.agent)
    value, output = _payload(attributes, "input", "inputs"), _payload(attributes, "output", "outputs")
    return run._replace(
        name=run.name or text(attributes.get(_ENTITY)),
        run_input=run_io.user_input(value, topmost=True),
        run_output=run_io.response(output, topmost=True),
    )


def _workflow(run: RunSpan, span: Span, attributes: Attributes) -> RunSpan:
    is_named = "gen_ai.workflow.nodes" in attributes and run.agent not in _UNNAMED
    return _run(run, span, attributes)._replace(name=None, agent=run.agent if is_named else None)


def _run(run: RunSpan, span: Span, attributes: Attributes) -> RunSpan:
    value, output = _payload(attributes, "input", "inputs"), _payload(attributes, "output", "outputs")
    topmost = span.parent_span_id is None or attributes.get("traceloop.span.kind") == "workflow"
    metadata = json_object(json_object(attributes.get("traceloop.entity.input")).get("metadata"))
    calls, results = langchain_values.new_tool_messages(output)
    run = changed(
        run_io.with_io(run, value, output, topmost=topmost),
        tool_calls=run.exchange.tool_calls or calls,
        tool_results=run.exchange.tool_results or results,
        conversation_id=run.session.conversation_id or first_identity(map(metadata.get, _CONVERSATION_IDS)),
    )
    is_graph, is_node = (_PROPERTIES + name in attributes for name in ("ls_integration", "langgraph_node"))
    return langchain_values.with_state(run, output, span.end_ns, is_graph=is_graph, is_node=is_node)


def _values(_: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    if kind == "tool":  # in TypeScript, its span has the name of its agent, too
        name = first_text((attributes.get(semconv.TOOL_NAME), attributes.get(_ENTITY)))
        return {semconv.TOOL_NAME: name}
    if kind != "llm":
        return {}
    inputs = [plain_message(m) for m in numbered(attributes, "gen_ai.prompt.")]
    outputs = [plain_message(m, "assistant") for m in numbered(attributes, "gen_ai.completion.")]
    own: dict[str, Any] = {}
    if inputs or outputs:
        own |= {semconv.INPUT_MESSAGES: inputs, semconv.OUTPUT_MESSAGES: outputs}
    if functions := numbered(attributes, "llm.request.functions."):
        own[semconv.TOOL_DEFINITIONS] = functions
    return own


def _tool(call: ToolUse, _: Span, attributes: Attributes) -> ToolUse:
    value = run_io.tool_input(
        attributes.get("traceloop.entity.input", attributes.get(semconv.TOOL_CALL_ARGUMENTS))
    )
    output = parse_json(attributes.get("traceloop.entity.output", attributes.get(semconv.TOOL_CALL_RESULT)))
    call_id = call.call_id
    if isinstance(value, dict) and value.keys() == {"args"} and isinstance(value["args"], list):
        value = parse_json(value["args"][0]) if len(value["args"]) == 1 else None  # TypeScript's callbacks
    if isinstance(value, dict) and "input_str" in value:
        if isinstance(context := value.get("kwargs"), dict):
            call_id = call_id or text(context.get("tool_call_id"))
        value = value["inputs"] if isinstance(value.get("inputs"), dict) else parse_json(value["input_str"])
    if isinstance(output, dict) and output.keys() == {"output", "kwargs"}:
        output = parse_json(output["output"])
    output = run_io.python_value(output)
    call = call._replace(
        name=None if text(attributes.get(_ENTITY)) in _TOOL_CLASSES else call.name,
        call_id=call_id,
        arguments=json_text(run_io.arguments(value)),
        result=json_text(output),
    )
    return run_io.with_tool_output(call, output)


def _payload(attributes: Attributes, direction: str, key: str) -> Any:
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
    names={
        **{_PROPERTIES + name: semconv.CONVERSATION_ID for name in _CONVERSATION_IDS},
        "langgraph.command.goto_node": semconv.HANDOFF_TO,
    },
    kind=_kind,
    values=_values,
    fixes={
        None: _any,
        "agent": _agent,
        "workflow": _workflow,
        "tool": _tool,
    },
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
