"""What LangChain and LangGraph record, whichever instrumentation wrote it down.

A message is serialised in three ways: `{"lc": 1, "id": [..., "ToolMessage"], "kwargs": {...}}`,
`{"type": "tool", "data": {...}}`, or its fields alone. A tool answers with a message, or with a `Command`:
an update of the graph's state with a message in it, and where to go next.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spangrade.converters.spans.observation import Observation, ToolCall, count, json_text, text
from spangrade.tracer.span import Span

_TYPES = {"human": "user", "ai": "assistant", "tool": "tool", "function": "tool", "system": "system"}
_METADATA = frozenset({"ls_integration", "langgraph_node", "lc_agent_name"})
# Runs called so are parts of an agent: the node that asks its model, and LangChain's own classes.
_NO_AGENTS = frozenset({"agent", "AgentExecutor", "RunnableAgent", "RunnableMultiActionAgent"})
_COMMAND = frozenset({"graph", "update", "goto"})
_PARENT = "__parent__"
# What LangGraph raises to hand over or to wait for a human: no failure.
_CONTROL_FLOW = re.compile(r"(?:.*\.)?(?:(?:Parent)?Command|(?:Graph|Node)Interrupt|GraphBubbleUp)(?:\(|$)")
_CALL_ID = re.compile(r"\btool_call_id='([^'\s]+)'")
_CONTENT = re.compile(r"\bcontent=('(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")")
_REPR = re.compile(r"content=.*\btool_call_id=|Command\(|\[?(?:AI|Human|Tool)Message\(", re.DOTALL)


class _Message(NamedTuple):
    role: str
    content: Any
    fields: Mapping[str, Any]


def answer(seen: Observation, value: Any) -> dict[str, Any]:
    """Return what a tool's recorded answer changes of its observation.

    That is the message's content as the result, its call id, a failure that its status tells, the state
    that a command writes, and where it hands over to.
    """
    if isinstance(value, dict) and value.keys() == {"output"} and isinstance(value["output"], str):
        value = value["output"]
    if isinstance(value, str) and _REPR.match(value):  # Python's repr of a message
        return _answer_of_repr(seen, value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    changes: dict[str, Any] = {}
    told = _message(value)
    if isinstance(value, dict) and value.keys() >= _COMMAND:
        update = value["update"]
        messages = _messages(update)
        told = next((m for m in reversed(messages) if m.role == "tool"), None)
        if isinstance(update, dict):
            changes["state"] = state(update, seen.end_ns)
        if value["graph"] == _PARENT and text(value["goto"]):
            changes["handoff_to"] = value["goto"]
    if told is not None and told.role == "tool":
        changes["result"] = json_text(told.content)
        changes["call_id"] = seen.call_id or text(told.fields.get("tool_call_id"))
        changes["failed"] = seen.failed or told.fields.get("status") == "error"
    return changes


def _answer_of_repr(seen: Observation, said: str) -> dict[str, Any]:
    content = _CONTENT.search(said)
    about = said[content.end() :] if content else ""
    ids = _CALL_ID.findall(about)
    try:
        result = json_text(ast.literal_eval(content[1])) if content else None
    except (ValueError, SyntaxError):  # cut short, or no repr after all
        result = None
    return {
        "result": result,
        "call_id": seen.call_id or (ids[0] if len(ids) == 1 else None),
        "failed": seen.failed or " status='error'" in about,
    }


def called(value: Any) -> dict[str, Any]:
    """Return what a model's output tells of its run: the call's id, some token counts, the tool calls."""
    generations = value.get("generations") if isinstance(value, dict) else None
    while isinstance(generations, list) and generations:
        generations = generations[0]
    message = _message(generations.get("message")) if isinstance(generations, dict) else None
    if message is None:
        return {}
    about, usage = message.fields.get("response_metadata"), message.fields.get("usage_metadata")
    calls = message.fields.get("tool_calls")
    changes: dict[str, Any] = {
        "call_key": text(message.fields.get("id")),
        "tool_calls": tuple(
            ToolCall(text(call.get("name")), text(call.get("id")), json_text(call.get("args")))
            for call in (calls if isinstance(calls, list) else ())
            if isinstance(call, dict)
        ),
    }
    if isinstance(about, dict) and text(about.get("id")):
        changes["call_key"] = about["id"]
    for name, details, key in (
        ("cached_input_tokens", "input_token_details", "cache_read"),
        ("reasoning_tokens", "output_token_details", "reasoning"),
    ):
        counts = usage.get(details) if isinstance(usage, dict) else None
        changes[name] = count(counts.get(key)) if isinstance(counts, dict) else None
    return changes


def state(channels: Any, time_ns: int) -> tuple[tuple[int, Mapping[str, Any]], ...]:
    """Return the write of a graph's channels besides its messages; none if there are no others."""
    if not isinstance(channels, dict):
        return ()
    others = {name: value for name, value in channels.items() if name != "messages"}
    return ((time_ns, others),) if others else ()


def holds_messages(value: Any) -> bool:
    """Tell whether a chain's input or output is a graph's state, by the messages in it."""
    return bool(_messages(value))


def last_text(value: Any, role: str) -> str | None:
    """Return the text of the last message of a role (`user`, `assistant`) in a graph's state."""
    for message in reversed(_messages(value)):
        if message.role == role and (said := _text(message.content)):
            return said
    return None


def writes(span: Span, metadata: Mapping[str, Any]) -> bool:
    """Tell whether a span is of LangChain's callbacks, by its scope or by what is in its metadata."""
    return "langchain" in (span.scope_name or "") or not metadata.keys().isdisjoint(_METADATA)


def agent(run: str, metadata: Mapping[str, Any], *, is_agent: bool) -> str | None:
    """Return the agent that a run is, if it is one: by its metadata, or as an agent that is a graph's node.

    `is_agent` is what an instrumentation makes of the run's name, which may be a function's inside an agent.
    """
    if run == metadata.get("lc_agent_name"):
        return run
    named = (
        run == metadata.get("langgraph_node", run) and run not in _NO_AGENTS and not run.endswith("Parser")
    )
    return run if named and is_agent else None


def control_flow(span: Span) -> bool:
    """Tell whether all that a span records as a failure is LangGraph's way to hand over or to wait."""
    raised = [e["attributes"].get("exception.type") for e in span.events if e.get("name") == "exception"]
    named = raised or [span.attributes.get("error.type") or span.status_message]
    return all(isinstance(name, str) and _CONTROL_FLOW.match(name) for name in named)


def _messages(value: Any) -> Sequence[_Message]:
    if isinstance(value, dict):
        value = value.get("messages")
    if not isinstance(value, list):
        return ()
    return [message for message in map(_message, value) if message is not None]


def _message(value: Any) -> _Message | None:
    if not isinstance(value, dict):
        return None
    kind, fields = value.get("type"), value
    if isinstance(value.get("kwargs"), dict) and isinstance(value.get("id"), list) and value["id"]:
        fields = value["kwargs"]
        kind = fields.get("type") or str(value["id"][-1]).partition("Message")[0].lower()
    elif isinstance(value.get("data"), dict):
        fields = value["data"]
    role = _TYPES.get(str(kind).removesuffix("MessageChunk").lower()) or text(fields.get("role"))
    return None if role is None or "content" not in fields else _Message(role, fields["content"], fields)


def _text(content: Any) -> str | None:
    if isinstance(content, list):
        content = "".join(
            part if isinstance(part, str) else part.get("text", "")
            for part in content
            if isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str))
        )
    return text(content)
