"""The values of LangChain and LangGraph, which several instrumentations record.

A tool returns a message, or a `Command`: an update of the graph's state with a message in it, and where to go
next. How messages are serialised: `messages.plain_message`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.messages import message_of, plain_message
from spangrade.converters.spans.observation import MessageCall, RunSpan, ToolResult, ToolUse, changed
from spangrade.converters.spans.outcomes import mark_of
from spangrade.converters.spans.parts import with_mark
from spangrade.converters.spans.values import count, json_object, json_text, literal, text
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.span import Span

_METADATA = frozenset({"ls_integration", "langgraph_node", "lc_agent_name"})
# Runs of these names are parts of an agent: the node that calls its model, and LangChain's own classes.
_NOT_AGENTS = frozenset({"agent", "AgentExecutor", "RunnableAgent", "RunnableMultiActionAgent"})
# The nodes of the graph that LangChain makes of an agent.
NODES_OF_AGENTS = frozenset({"agent", "model", "tools", "__start__", "__end__"})
_COMMAND = frozenset({"update", "goto"})
_PARENT = "__parent__"
# The exceptions that LangGraph raises to hand over or to wait for a human; they are not failures.
_CONTROL_FLOW = re.compile(
    r"(?:.*\.)?(?:(?:Parent)?Command|(?:Graph|Node)?Interrupt|GraphBubbleUp)(?:\(|$)|[\[(]+Interrupt\("
)
_CALL_ID = re.compile(r"\btool_call_id='([^'\s]+)'")
_CONTENT = re.compile(r"\bcontent=('(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")")
_REPR = re.compile(r"content=.*\btool_call_id=|Command\(|\[?(?:AI|Human|Tool)Message\(", re.DOTALL)


def with_tool_output(tool: ToolUse, value: Any) -> ToolUse:
    """Return a tool's call with the result, id and failure in its recorded output.

    These are the message's content as the result, its call id, the tool's name, a failure by its status, the
    state that a command writes, and the node to which a command hands over.
    """
    if isinstance(value, dict) and value.keys() == {"output"} and _is_wrapped(value["output"]):
        value = value["output"]
    if isinstance(value, str) and _REPR.match(value):  # Python's repr of a message
        return _with_output_of_repr(tool, value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    changes: dict[str, Any] = {}
    message = plain_message(value)
    if _is_command(value):
        update = value["update"]
        message = next((m for m in reversed(_messages(update)) if m["role"] == "tool"), None)
        if isinstance(update, dict):
            changes["state"] = state_writes(update, tool.span.end_ns)
        if value.get("graph") == _PARENT and text(value["goto"]):
            changes["handoff_to"] = value["goto"]
    if message is not None and message.get("role") == "tool":
        changes["result"] = _result(message.get("content"))
        changes["call_id"] = tool.call_id or text(message.get("tool_call_id"))
        mark = mark_of(message, message.get("content"))
        changes["failed"] = tool.failure is not None or mark == "failed"
        changes["doubtful_outcome"] = mark == "unknown"
        changes["name"] = tool.name or text(message.get("name"))
    return changed(tool, **changes) if changes else tool


def _result(content: Any) -> str | None:
    """Return a message's content as JSON text; a text that is not an object, list or string stays a text."""
    if isinstance(content, str) and not content.startswith(("{", "[", '"')):
        return canonical(content)
    return json_text(content)


def _is_command(value: Any) -> bool:
    """Return whether a value is a `Command`; TypeScript leaves out the graph if it is the same one."""
    if not isinstance(value, dict) or not value.keys() >= _COMMAND:
        return False
    return "graph" in value or value.get("lg_name") == "Command"


def _is_wrapped(value: Any) -> bool:
    """Return whether a value in `{"output": value}` is a tool's output: a text, a message, a command."""
    if _is_command(value):
        return True
    return isinstance(value, str) or plain_message(value) is not None


def _with_output_of_repr(tool: ToolUse, source: str) -> ToolUse:
    content = _CONTENT.search(source)
    rest = source[content.end() :] if content else ""
    ids = _CALL_ID.findall(rest)
    return changed(
        tool,
        result=json_text(literal(content[1])) if content else None,
        call_id=tool.call_id or (ids[0] if len(ids) == 1 else None),
        failed=tool.failure is not None or " status='error'" in rest,
    )


def model_output(value: Any) -> dict[str, Any]:
    """Return the fields of a model call's observation that its output holds: call key, tool calls, tokens.

    The output is `{"generations": [[{"message": …}]]}`; its tokens are the cached ones, a part of the input,
    and those of reasoning.
    """
    generations = value.get("generations") if isinstance(value, dict) else None
    while isinstance(generations, list) and generations:
        generations = generations[0]
    message = plain_message(json_object(generations).get("message"))
    if message is None:
        return {}
    metadata, usage = (json_object(message.get(f"{name}_metadata")) for name in ("response", "usage"))
    read = message_of(message)
    return {
        "call_key": text(metadata.get("id")) or text(message.get("id")),
        "tool_calls": () if read is None else read.tool_calls,
        **({"unread": read.unread} if read is not None and read.unread else {}),
        "cached_input_tokens": count(json_object(usage.get("input_token_details")).get("cache_read")),
        "reasoning_tokens": count(json_object(usage.get("output_token_details")).get("reasoning")),
    }


def new_tool_messages(value: Any) -> tuple[tuple[MessageCall, ...], tuple[ToolResult, ...]]:
    """Return the tool calls and results in a graph's state after the user's last message."""
    messages = _messages(value)
    last = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=-1)
    results = [message for message in messages[last + 1 :] if message["role"] == "tool"]
    return (
        _calls(messages[last + 1 :]),
        tuple(map(_reported, results)),
    )


def _reported(message: Mapping[str, Any]) -> ToolResult:
    name, call_id = text(message.get("name")), text(message.get("tool_call_id"))
    return with_mark(ToolResult(name, call_id, _result(message.get("content"))), message)


def _calls(messages: Sequence[Mapping[str, Any]]) -> tuple[MessageCall, ...]:
    """Return the calls that messages request, as LangChain lists them."""
    read = filter(None, map(message_of, messages))
    return tuple(call for message in read if message.role == "assistant" for call in message.tool_calls)


def state_writes(channels: Any, time_ns: int) -> tuple[tuple[int, Mapping[str, Any]], ...]:
    """Return the write of a graph's channels without its messages; no write if there are no others."""
    if not isinstance(channels, dict):
        return ()
    others = {name: value for name, value in channels.items() if name != "messages"}
    return ((time_ns, others),) if others else ()


def with_state(run: RunSpan, output: Any, end_ns: int, *, is_graph: bool, is_node: bool) -> RunSpan:
    """Return the run of a graph with the state that it returned; that of a node is its graph's."""
    if is_node or not (is_graph or _messages(output)):
        return run
    return changed(run, state=state_writes(output, end_ns))


def is_langchain(span: Span, metadata: Mapping[str, Any]) -> bool:
    """Return whether LangChain's callbacks made a span, by its scope or by the keys of its metadata."""
    return "langchain" in (span.scope_name or "") or not metadata.keys().isdisjoint(_METADATA)


def agent_name(run: str, metadata: Mapping[str, Any], *, is_agent: bool) -> str | None:
    """Return the name of the agent that a run is; None if it is not one.

    It is one by its metadata, or if it is a node of a graph and `is_agent`: whether the instrumentation takes
    the run for an agent, which it also does for functions inside an agent.
    """
    if run == metadata.get("lc_agent_name"):
        return run
    is_node = run == metadata.get("langgraph_node", run)
    return run if is_agent and is_node and run not in _NOT_AGENTS and not run.endswith("Parser") else None


def only_hands_over(span: Span) -> bool:
    """Return whether all that a failed span raised is what LangGraph raises to hand over or to wait.

    In TypeScript, the first line of an exception's message is its class.
    """
    raised = [event["attributes"] for event in span.events if event.get("name") == "exception"] or [
        {"exception.type": span.attributes.get("error.type"), "exception.message": span.status_message}
    ]
    for exception in raised:
        said = exception.get("exception.message")
        words = (
            exception.get("exception.type"),
            said.strip().split("\n")[0] if isinstance(said, str) else "",
        )
        if not any(isinstance(word, str) and _CONTROL_FLOW.match(word) for word in words):
            return False
    return True


def _messages(value: Any) -> Sequence[dict[str, Any]]:
    """Return the messages in a graph's state, or a list of them."""
    if isinstance(value, dict):
        value = value.get("messages")
    if not isinstance(value, list):
        return ()
    found = (plain_message(message) for message in value)
    return [message for message in found if message is not None and "role" in message]
