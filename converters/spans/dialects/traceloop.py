"""OpenLLMetry: the spans of Traceloop's instrumentations (LangChain, OpenAI agents, crewAI, model clients).

https://www.traceloop.com/docs/openllmetry/contributing/semantic-conventions. Newer ones keep to the GenAI
conventions, older ones spell messages out (`gen_ai.prompt.0.content`). Around LangChain, inputs and outputs
are the payloads of its callbacks: `{"inputs": {...}, "tags": [...], "kwargs": {"tool_call_id": ...}}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import langchain_values, run_io
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.flattened import numbered
from spangrade.converters.spans.history import thread
from spangrade.converters.spans.messages import exchange
from spangrade.converters.spans.observation import Kind, Observation, count, json_text, json_value, text
from spangrade.tracer.span import LogRecord, Span

_OWN = {"traceloop.span.kind", "llm.request.type", "gen_ai.prompt.0.role", "gen_ai.completion.0.role"}
_OWN |= {"gen_ai.workflow.nodes", "langgraph.command.goto_node"}
_SCOPES = frozenset({"opentelemetry.instrumentation.langchain", "opentelemetry.instrumentation.crewai"})
_KINDS: dict[Any, Kind] = {"workflow": "workflow", "agent": "agent", "task": "other", "tool": "tool"}
_PROPERTIES = "traceloop.association.properties."
_CONVERSATION_IDS = ("session_id", "conversation_id", "thread_id", "chat_id")
# The node that asks the model, in the graph that LangChain makes of an agent.
_MODEL_NODES = frozenset({"model", "agent"})


class Traceloop:
    """Spans with Traceloop's attributes, and those that its instrumentations write without."""

    def claims(self, span: Span, /) -> bool:
        """Claim by attribute, else by the scopes that nobody else uses."""
        return not _OWN.isdisjoint(span.attributes) or span.scope_name in _SCOPES

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span by the conventions, then by the attributes that Traceloop has instead."""
        a = with_events(span, logs)
        seen = genai.read(span, a)
        agent = text(a.get(_PROPERTIES + "lc_agent_name"))
        properties = (a.get(_PROPERTIES + key) for key in _CONVERSATION_IDS)
        seen = seen._replace(
            kind=_kind(seen, a),
            agent=agent or seen.agent,
            conversation_id=seen.conversation_id or next(filter(None, map(text, properties)), None),
        )
        if seen.failed and langchain_values.control_flow(span):
            seen = seen._replace(failed=False, error=None)
        if agent and agent == a.get("traceloop.entity.name") and seen.kind in {"workflow", "other"}:
            return seen._replace(**_run(span, seen, a), kind="agent", name=agent)
        if seen.kind == "agent" and seen.name is None:
            return seen._replace(name=text(a.get("traceloop.entity.name")))
        if seen.kind == "workflow":
            return seen._replace(**_run(span, seen, a), name=None, agent=None)
        if seen.kind == "tool":
            return _tool(seen, a)
        if seen.kind == "handoff":
            to = a.get("gen_ai.handoff.to_agent") or a.get("langgraph.command.goto_node")
            return seen._replace(agent=text(a.get("gen_ai.handoff.from_agent")), handoff_to=text(to))
        return seen._replace(**_llm(seen, a)) if seen.kind == "llm" else seen


DIALECT = Traceloop()


def _kind(seen: Observation, a: Mapping[str, Any]) -> Kind:
    kind = a.get("traceloop.span.kind")
    if kind == "handoff" or "langgraph.command.goto_node" in a:
        return "handoff"
    if kind in _KINDS:
        return _KINDS[kind]
    if a.get("llm.request.type") in {"chat", "completion"}:
        return "llm"
    nodes = a.get("gen_ai.workflow.nodes")
    if seen.kind == "agent" and (seen.name is None or (nodes and _MODEL_NODES.isdisjoint(nodes))):
        return "workflow"
    return seen.kind


def _run(span: Span, seen: Observation, a: Mapping[str, Any]) -> dict[str, Any]:
    asked, answered = _payload(a, "input", "inputs"), _payload(a, "output", "outputs")
    topmost = span.parent_span_id is None or a.get("traceloop.span.kind") == "workflow"
    graph = _PROPERTIES + "ls_integration" in a or langchain_values.holds_messages(answered)
    whole = graph and _PROPERTIES + "langgraph_node" not in a
    payload = json_value(a.get("traceloop.entity.input"))
    metadata = payload.get("metadata") if isinstance(payload, dict) else None
    ids = map(metadata.get, _CONVERSATION_IDS) if isinstance(metadata, dict) else ()
    return {
        "conversation_id": seen.conversation_id or next(filter(None, map(text, ids)), None),
        "user_input": seen.user_input or run_io.asked(asked, topmost=topmost),
        "response": seen.response or run_io.answered(answered, topmost=topmost),
        "state": langchain_values.state(answered, span.end_ns) if whole else seen.state,
    }


def _tool(seen: Observation, a: Mapping[str, Any]) -> Observation:
    asked = json_value(a.get("traceloop.entity.input", a.get("gen_ai.tool.call.arguments")))
    answered = json_value(a.get("traceloop.entity.output", a.get("gen_ai.tool.call.result")))
    call_id = seen.call_id
    if isinstance(asked, dict) and "input_str" in asked:
        if isinstance(about := asked.get("kwargs"), dict):
            call_id = call_id or text(about.get("tool_call_id"))
        asked = asked["inputs"] if isinstance(asked.get("inputs"), dict) else json_value(asked["input_str"])
    if isinstance(answered, dict) and answered.keys() == {"output", "kwargs"}:
        answered = json_value(answered["output"])
    answered = run_io.python_value(answered)
    name = seen.name or text(a.get("traceloop.entity.name"))
    tool = seen._replace(
        kind="tool" if name else "other",
        name=name,
        call_id=call_id,
        arguments=json_text(run_io.arguments(asked)),
        result=json_text(answered),
    )
    return tool._replace(**run_io.answer(tool, answered))


def _llm(seen: Observation, a: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, key in (("input_tokens", "prompt"), ("output_tokens", "completion")):
        if getattr(seen, name) is None:
            changes[name] = count(a.get(f"llm.usage.{key}_tokens"))
    inputs = [_message(m) for m in numbered(a, "gen_ai.prompt.")]
    outputs = [_message(m, "assistant") for m in numbered(a, "gen_ai.completion.")]
    if inputs or outputs:
        changes |= exchange(inputs, outputs, injected=genai.is_context)._asdict()
        if seen.conversation_id is None:
            changes["thread"] = thread(inputs, outputs)
    return changes


def _message(m: Mapping[str, Any], role: str | None = None) -> dict[str, Any]:
    content = json_value(m.get("content"))
    return {
        **m,
        "role": role or m.get("role"),
        "content": content if isinstance(content, list) else m.get("content"),
        "tool_calls": [{"type": "function", **call} for call in numbered(m, "tool_calls.")],
    }


def _payload(a: Mapping[str, Any], way: str, inside: str) -> Any:
    value = json_value(a.get(f"traceloop.entity.{way}"))
    if isinstance(value, dict) and inside in value:
        return value[inside]
    if isinstance(value, dict) and "kwargs" in value and "args" in value:
        args = value["args"]
        return args[0] if isinstance(args, list) and len(args) == 1 else value["kwargs"]
    return value
