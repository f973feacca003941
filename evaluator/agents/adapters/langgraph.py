"""Agents that are LangGraph graphs with `messages` in their state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from spangrade.converters.spans.values import parse_json
from spangrade.evaluator.agents.adapters.adapter import Answer, Reply, comes_from, drilled, in_drill
from spangrade.evaluator.turn import ToolCall, Turn
from spangrade.tracer.base.errors import InputError

_TO_RECORD = "call its tools by a ToolNode, or instrument LangChain (openinference-instrumentation-langchain)"


def converse(agent: Any, conversation_id: str) -> Answer | None:
    """Open a thread with a graph, which is compiled if it is not; its id is the conversation's.

    A graph without a checkpointer gets the whole conversation in each turn.
    """
    if comes_from(agent, "langgraph") and hasattr(agent, "compile"):
        agent = agent.compile()
    if not (comes_from(agent, "langgraph") and hasattr(agent, "ainvoke")):
        return None
    messages: list[Any] = []
    config = {"configurable": {"thread_id": conversation_id}}

    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        if in_drill():
            _drill(agent)
        earlier = messages or [{"role": "assistant", "content": str(turn.text)} for turn in history]
        is_in_thread = bool(messages) and bool(getattr(agent, "checkpointer", None))
        latest = {"role": "user", "content": text}
        state = await agent.ainvoke({"messages": [latest] if is_in_thread else [*earlier, latest]}, config)
        if not isinstance(state, dict) or not isinstance(state.get("messages"), list):
            raise InputError(f"the graph {agent.name} ends without a list of 'messages' in its state")
        messages[:] = state["messages"]
        return _reply(messages, has_tools=any(True for _ in _tools(agent)))

    return answer


_given: ContextVar[Any] = ContextVar("spangrade-tool-input")  # what the model gave to a tool


def _drill(graph: Any) -> None:
    """Let the tools of each `ToolNode` of a graph, and of the graphs in it, do what a drill asks for."""
    for tool in _tools(graph):
        if tool.response_format == "content" and not hasattr(tool._run, "is_drilled"):
            _drill_tool(tool)


def _tools(graph: Any) -> Iterator[Any]:
    """Yield the tools of each `ToolNode` of a graph, and of the graphs in it."""
    for one in (graph, *(subgraph for _, subgraph in graph.get_subgraphs(recurse=True))):
        for node in one.nodes.values():
            yield from getattr(node.bound, "tools_by_name", {}).values()


def _drill_tool(tool: Any) -> None:
    """Drill what a tool of any kind runs inside its callbacks; there its arguments have defaults."""

    def with_input(run: Callable[..., Any]) -> Callable[..., Any]:
        def noting(tool_input: Any, *args: Any, **kwargs: Any) -> Any:
            _given.set(tool_input)
            return run(tool_input, *args, **kwargs)

        return noting

    def arguments(_: object) -> object:
        given = _given.get(None)
        schema = tool.tool_call_schema
        names = schema.get("properties", {}) if isinstance(schema, dict) else schema.model_fields
        return {name: given[name] for name in given if name in names} if isinstance(given, dict) else given

    changed = {name: with_input(getattr(tool, name)) for name in ("run", "arun")}
    changed |= {name: drilled(tool.name, getattr(tool, name), arguments) for name in ("_run", "_arun")}
    for name, function in changed.items():
        object.__setattr__(tool, name, function)  # pydantic refuses names that are no fields


def _reply(messages: Sequence[Any], *, has_tools: bool) -> Reply:
    """Return the reply in the messages after the user's last: a graph emits no spans unless instrumented.

    Messages have the calls of a `ToolNode`; what other nodes call is not in them.
    """
    last_input = max((i for i, message in enumerate(messages) if message.type == "human"), default=-1)
    fresh = messages[last_input + 1 :]
    texts = [text for message in fresh if message.type == "ai" and (text := _text(message.content))]
    results = {m.tool_call_id: parse_json(m.content) for m in fresh if m.type == "tool"}
    calls = [
        ToolCall(call["name"], call["args"], results[call["id"]])
        for message in fresh
        for call in getattr(message, "tool_calls", None) or ()
        if call["id"] in results
    ]
    return Reply(texts[-1] if texts else None, calls if calls or has_tools else None, to_record=_TO_RECORD)


def _text(content: Any) -> str:
    parts = [content] if isinstance(content, str) else content
    return "".join(part if isinstance(part, str) else part.get("text") or "" for part in parts)
