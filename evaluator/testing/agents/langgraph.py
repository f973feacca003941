"""Agents that are LangGraph graphs with `messages` in their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spangrade.converters.spans.values import parse_json
from spangrade.evaluator.testing.agents.adapter import Answer, Reply, comes_from
from spangrade.evaluator.turn import ToolCall, Turn
from spangrade.tracer.errors import InputError


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
        earlier = messages or [{"role": "assistant", "content": str(turn.text)} for turn in history]
        is_in_thread = bool(messages) and bool(getattr(agent, "checkpointer", None))
        latest = {"role": "user", "content": text}
        state = await agent.ainvoke({"messages": [latest] if is_in_thread else [*earlier, latest]}, config)
        if not isinstance(state, dict) or not isinstance(state.get("messages"), list):
            raise InputError(f"the graph {agent.name} ends without a list of 'messages' in its state")
        messages[:] = state["messages"]
        return _reply(messages)

    return answer


def _reply(messages: Sequence[Any]) -> Reply:
    """Return the reply in the messages after the user's last: a graph emits no spans unless instrumented."""
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
    return Reply(texts[-1] if texts else None, calls)


def _text(content: Any) -> str:
    parts = [content] if isinstance(content, str) else content
    return "".join(part if isinstance(part, str) else part.get("text") or "" for part in parts)
