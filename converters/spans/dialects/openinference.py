"""OpenInference: the spans of Arize's instrumentations (LangChain, OpenAI agents, crewAI, LlamaIndex, …).

https://arize-ai.github.io/openinference/spec/semantic_conventions.html. `openinference.span.kind` says what
a span is; a chain may be anything from a whole run to a function in it, so that only the topmost counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import langchain_values, run_io
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.flattened import messages
from spangrade.converters.spans.history import thread
from spangrade.converters.spans.messages import exchange
from spangrade.converters.spans.observation import Observation, count, json_text, json_value, text
from spangrade.tracer.span import LogRecord, Span

_KIND = "openinference.span.kind"
_CONVERSATION_IDS = ("session_id", "conversation_id", "thread_id")
_RANDOM_ID = re.compile(r"[0-9a-f-]{16,}")
# What smolagents' agents are called that have no name.
_SMOLAGENTS = frozenset({"CodeAgent", "ToolCallingAgent", "MultiStepAgent"})
# LlamaIndex's preparation of a call, which is a method of its models.
_NO_CALL = re.compile(r"\._prepare_\w+$")
# A tool by which a model ends its run.
_NO_TOOLS = frozenset({"final_answer"})


class OpenInference:
    """Spans with an `openinference.span.kind`, whatever instrumentation they come from."""

    def claims(self, span: Span, /) -> bool:
        """Claim by the attribute that every such span has."""
        return _KIND in span.attributes

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span by OpenInference's attributes, and by the GenAI conventions what they leave out."""
        a = with_events(span, logs)
        seen = genai.read(span, a)
        metadata = json_value(a.get("metadata"))
        metadata = metadata if isinstance(metadata, dict) else {}
        ids = (a.get("session.id"), seen.conversation_id, *map(metadata.get, _CONVERSATION_IDS))
        seen = seen._replace(conversation_id=next(filter(None, map(text, ids)), None))
        if seen.failed and langchain_values.control_flow(span):
            seen = seen._replace(failed=False, error=None)
        kind = a[_KIND]
        if kind == "LLM" and _NO_CALL.search(span.name) is None:
            return seen._replace(**_llm(seen, a))
        if kind == "TOOL" or (kind == "AGENT" and "tool.name" in a):
            return seen._replace(**_tool(span, seen, a))
        if kind in {"AGENT", "CHAIN"}:
            return seen._replace(**_run(span, seen, a, metadata))
        return seen


DIALECT = OpenInference()


def _llm(seen: Observation, a: Mapping[str, Any]) -> dict[str, Any]:
    models = (a.get(f"llm.{key}") for key in ("response.model_name", "model_name", "request.model_name"))
    changes: dict[str, Any] = {
        "kind": "llm",
        "provider": text(a.get("llm.provider")) or text(a.get("llm.system")) or seen.provider,
        "model": next(filter(None, map(text, models)), seen.model),
    }
    answered = json_value(a.get("output.value"))
    if isinstance(answered, dict):
        changes |= {
            "call_key": text(answered.get("id")) or seen.call_key,
            **langchain_values.called(answered),
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
    inputs, outputs = messages(a, "llm.input_messages."), messages(a, "llm.output_messages.")
    if inputs or outputs:
        said = exchange(inputs, outputs, injected=genai.is_context)
        changes |= said._asdict() | {"tool_calls": said.tool_calls or changes.get("tool_calls", ())}
        if seen.conversation_id is None:
            changes["thread"] = thread(inputs, outputs)
    return changes


def _tool(span: Span, seen: Observation, a: Mapping[str, Any]) -> dict[str, Any]:
    asked, answered = json_value(a.get("input.value")), run_io.python_value(json_value(a.get("output.value")))
    name = text(a.get("tool.name")) or seen.name
    if name is None and span.name.startswith("handoff to "):  # OpenAI agents
        to = text(answered) or span.name.removeprefix("handoff to ")
        return {"kind": "handoff", "agent": text(asked), "handoff_to": to}
    if name is None or name in _NO_TOOLS:
        return {"kind": "other"}
    arguments = run_io.arguments(asked, json_value(a.get("tool.parameters")))
    tool = seen._replace(
        kind="tool",
        name=name,
        call_id=text(a.get("tool_call.id")) or text(a.get("tool.id")) or seen.call_id,
        arguments=seen.arguments if arguments is None else json_text(arguments),
        result=seen.result if answered is None else json_text(answered),
        handoff_to=run_io.delegate(name, arguments),
    )
    return tool._asdict() | run_io.answer(tool, answered)


def _run(span: Span, seen: Observation, a: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    asked, answered = a.get("input.value", a.get("crew_inputs")), json_value(a.get("output.value"))
    topmost = span.parent_span_id is None
    name = _agent(span, seen, a, metadata)
    changes: dict[str, Any] = {
        "kind": "agent" if name else "workflow",
        "name": name,
        "agent": name,
        "user_input": seen.user_input or run_io.asked(json_value(asked), topmost=topmost),
        "response": seen.response or run_io.answered(answered, topmost=topmost),
    }
    graph = (
        span.name == "LangGraph" or "ls_integration" in metadata or langchain_values.holds_messages(answered)
    )
    if graph and "langgraph_node" not in metadata and langchain_values.writes(span, metadata):
        changes["state"] = langchain_values.state(answered, span.end_ns)
    return changes


def _agent(span: Span, seen: Observation, a: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    if name := text(a.get("agent.name")) or seen.agent:
        return name
    if langchain_values.writes(span, metadata):
        return langchain_values.agent(span.name, metadata, is_agent=a[_KIND] == "AGENT")
    if a[_KIND] != "AGENT":
        return None
    if "smolagents.max_steps" in a and span.name.endswith(".run"):
        return None if (run := span.name.removesuffix(".run")) in _SMOLAGENTS else run
    node = text(a.get("graph.node.name")) or text(a.get("graph.node.id"))
    return None if node is None or _RANDOM_ID.fullmatch(node) else node
