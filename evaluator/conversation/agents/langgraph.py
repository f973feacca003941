"""Agents that are LangGraph graphs, of a state with `messages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spangrade.converters.spans.values import parse_json
from spangrade.evaluator.conversation.agents.adapter import Answer, Reply, comes_from
from spangrade.evaluator.turn import ToolCall, Turn
from spangrade.tracer.errors import InputError


def converse(agent: Any, conversation_id: str) -> Answer | None:
    """Open a thread, whose id is the conversation's, with a compiled graph.

    A graph without a checkpointer is given the whole conversation each turn.
    """
    if not (comes_from(agent, "langgraph") and hasattr(agent, "ainvoke")):
        return None
    messages: list[Any] = []
    config = {"configurable": {"thread_id": conversation_id}}

    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        given = messages or [{"role": "assistant", "content": str(turn.text)} for turn in history]
        known = bool(messages) and bool(getattr(agent, "checkpointer", None))
        said = {"role": "user", "content": text}
        state = await agent.ainvoke({"messages": [said] if known else [*given, said]}, config)
        if not isinstance(state, dict) or not isinstance(state.get("messages"), list):
            raise InputError(f"the graph {agent.name} ends without a list of 'messages' in its state")
        messages[:] = state["messages"]
        return _reply(messages)

    return answer


def _reply(messages: Sequence[Any]) -> Reply:
    """Return what the messages after the user's last tell: a graph emits no spans unless instrumented."""
    asked = max((i for i, message in enumerate(messages) if message.type == "human"), default=-1)
    fresh = messages[asked + 1 :]
    texts = [text for message in fresh if message.type == "ai" and (text := _text(message.content))]
    results = {m.tool_call_id: parse_json(m.content) for m in fresh if m.type == "tool"}
    calls = [
        ToolCall(call["name"], call["args"], results[call["id"]])
        for message in fresh
        for call in getattr(message, "tool_calls", None) or ()
        if call["id"] in results
    ]
    return Reply(texts[-1] if texts else None, calls)


def _text(content: Any) -> str:
    parts = [content] if isinstance(content, str) else content
    return "".join(part if isinstance(part, str) else part.get("text") or "" for part in parts)
