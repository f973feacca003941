"""OpenInference: the spans of Arize's instrumentations (LangChain, OpenAI agents, crewAI, LlamaIndex, …).

https://arize-ai.github.io/openinference/spec/semantic_conventions.html. `openinference.span.kind` says what
a span is; a chain may be anything from a whole run to a function in it, so that only the topmost counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters import langchain, runs
from spangrade.converters.dialects import genai
from spangrade.converters.flattened import numbered
from spangrade.converters.messages import exchange
from spangrade.converters.observation import Observation, count, json_text, json_value, text
from spangrade.tracer.span import LogRecord, Span

_KIND = "openinference.span.kind"
_RANDOM_ID = re.compile(r"[0-9a-f-]{16,}")
# LangChain's spans whose names hold "agent", which is what makes them agents to its instrumentation.
_NO_AGENTS = ("agent", "AgentExecutor", "RunnableAgent", "RunnableMultiActionAgent")
_LANGCHAIN = frozenset({"ls_integration", "langgraph_node", "lc_agent_name"})
# A tool by which a model ends its run.
_NO_TOOLS = frozenset({"final_answer"})
_DELEGATION = frozenset({"Delegate work to coworker", "delegate_work_to_coworker"})


class OpenInference:
    """Spans with an `openinference.span.kind`, whatever instrumentation they come from."""

    def claims(self, span: Span, /) -> bool:
        """Claim by the attribute that every such span has."""
        return _KIND in span.attributes

    def read(self, span: Span, _: Sequence[LogRecord]) -> Observation:
        """Read a span by OpenInference's attributes, and by the GenAI conventions what they leave out."""
        a = span.attributes
        seen = genai.read(span, a)
        metadata = _document(a.get("metadata"))
        changes: dict[str, Any] = {
            "conversation_id": text(a.get("session.id"))
            or seen.conversation_id
            or next((text(metadata.get(key)) for key in ("session_id", "conversation_id", "thread_id")), None)
        }
        if seen.failed and langchain.control_flow(span):
            changes |= {"failed": False, "error": None}
        seen = seen._replace(**changes)
        kind = a[_KIND]
        if kind == "LLM":
            return seen._replace(**_llm(seen, a))
        if kind == "TOOL" or (kind == "AGENT" and "tool.name" in a):
            return seen._replace(**_tool(span, seen, a))
        if kind in {"AGENT", "CHAIN"}:
            return seen._replace(**_run(span, seen, a, metadata))
        return seen


DIALECT = OpenInference()


def _llm(seen: Observation, a: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "kind": "llm",
        "provider": text(a.get("llm.provider")) or text(a.get("llm.system")) or seen.provider,
        "model": text(a.get("llm.response.model_name"))
        or text(a.get("llm.model_name"))
        or text(a.get("llm.request.model_name"))
        or seen.model,
    }
    for name, key in (
        ("input_tokens", "prompt"),
        ("output_tokens", "completion"),
        ("cached_input_tokens", "prompt_details.cache_read"),
        ("reasoning_tokens", "completion_details.reasoning"),
        ("cache_write_tokens", "prompt_details.cache_write"),
    ):
        if (tokens := count(a.get(f"llm.token_count.{key}"))) is not None:
            changes[name] = tokens
    inputs = [_message(m) for m in numbered(a, "llm.input_messages.")]
    outputs = [_message(m) for m in numbered(a, "llm.output_messages.")]
    if inputs or outputs:
        changes |= exchange(inputs, outputs, injected=genai.is_context)._asdict()
    return changes


def _message(m: Mapping[str, Any]) -> dict[str, Any]:
    parts = [
        {"type": part.get("message_content.type", "text"), "text": part.get("message_content.text")}
        for part in numbered(m, "message.contents.")
    ]
    calls = [
        {
            "type": "function",
            "id": call.get("tool_call.id"),
            "name": call.get("tool_call.function.name"),
            "arguments": call.get("tool_call.function.arguments"),
        }
        for call in numbered(m, "message.tool_calls.")
    ]
    if "message.function_call_name" in m:  # before tool calls
        name, arguments = m["message.function_call_name"], m.get("message.function_call_arguments_json")
        calls.append({"type": "function", "name": name, "arguments": arguments})
    call_id = m.get("message.tool_call_id")
    return {
        "role": "tool" if call_id else m.get("message.role"),  # a result has role user for some
        "content": parts or m.get("message.content"),
        "tool_calls": calls,
        "tool_call_id": call_id,
        "name": m.get("message.name"),
    }


def _tool(span: Span, seen: Observation, a: Mapping[str, Any]) -> dict[str, Any]:
    asked, answered = a.get("input.value"), a.get("output.value")
    name = text(a.get("tool.name")) or seen.name
    if name is None and span.name.startswith("handoff to "):  # OpenAI agents
        to = text(answered) or span.name.removeprefix("handoff to ")
        return {"kind": "handoff", "agent": text(asked), "handoff_to": to}
    if name is None or name in _NO_TOOLS:
        return {"kind": "other"}
    arguments = _arguments(asked, a.get("tool.parameters"))
    changes: dict[str, Any] = {
        "kind": "tool",
        "name": name,
        "call_id": text(a.get("tool_call.id")) or text(a.get("tool.id")) or seen.call_id,
        "arguments": seen.arguments if arguments is None else json_text(arguments),
        "result": seen.result if answered is None else json_text(answered),
    }
    if name in _DELEGATION and isinstance(arguments, dict):
        changes["handoff_to"] = text(arguments.get("coworker"))
    return changes | langchain.answer(seen._replace(call_id=changes["call_id"]), json_value(answered))


def _arguments(asked: Any, parameters: Any) -> Any:
    """Return a call's arguments; a lone one may be given as its bare value, which the parameters name."""
    asked, parameters = runs.arguments(json_value(asked)), json_value(parameters)
    named = parameters.get("properties") if isinstance(parameters, dict) else None
    if asked is not None and not isinstance(asked, dict) and isinstance(named, dict) and len(named) == 1:
        return {next(iter(named)): asked}
    return asked


def _run(span: Span, seen: Observation, a: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    asked, answered = (
        json_value(a.get("input.value", a.get("crew_inputs"))),
        json_value(a.get("output.value")),
    )
    topmost = span.parent_span_id is None
    name = _agent(span, seen, a, metadata)
    changes: dict[str, Any] = {
        "kind": seen.kind if seen.kind != "other" else "agent" if name else "workflow",
        "name": name,
        "agent": name,
        "user_input": seen.user_input or runs.asked(asked, topmost=topmost),
        "response": seen.response or runs.answered(answered, topmost=topmost),
    }
    graph = span.name == "LangGraph" or "ls_integration" in metadata or langchain.holds_messages(answered)
    if graph and "langgraph_node" not in metadata and _is_langchain(span, metadata):
        changes["state"] = langchain.state(answered, span.end_ns)
    return changes


def _agent(span: Span, seen: Observation, a: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    if name := text(a.get("agent.name")) or seen.agent:
        return name
    if _is_langchain(span, metadata):
        if span.name == metadata.get("lc_agent_name"):
            return span.name
        inside = metadata.get("langgraph_node", span.name)
        named = span.name == inside and span.name not in _NO_AGENTS and not span.name.endswith("Parser")
        return span.name if named and a[_KIND] == "AGENT" else None
    if a[_KIND] != "AGENT":
        return None
    node = text(a.get("graph.node.name")) or text(a.get("graph.node.id"))
    return None if node is None or _RANDOM_ID.fullmatch(node) else node


def _is_langchain(span: Span, metadata: Mapping[str, Any]) -> bool:
    return "langchain" in (span.scope_name or "") or not metadata.keys().isdisjoint(_LANGCHAIN)


def _document(value: Any) -> Mapping[str, Any]:
    value = json_value(value)
    return value if isinstance(value, dict) else {}
