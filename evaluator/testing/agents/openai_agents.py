"""Agents of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from spangrade.converters.spans.values import parse_json
from spangrade.evaluator.testing.agents.adapter import Answer, Reply, comes_from
from spangrade.evaluator.testing.agents.callables import messages_of
from spangrade.evaluator.turn import ToolCall, Turn
from spangrade.tracer.canonical_json import json_value


def converse(agent: Any, conversation_id: str) -> Answer | None:  # noqa: ARG001 (the items are the conversation)
    """Open a conversation with an agent; one that it hands over to answers the next turn, too."""
    if not (comes_from(agent, "agents") and hasattr(agent, "handoffs") and hasattr(agent, "instructions")):
        return None
    items: list[Any] = []
    current = agent

    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        nonlocal current
        from agents import Runner

        earlier = items or messages_of(history)
        result = await Runner.run(current, [*earlier, {"role": "user", "content": text}])
        items[:] = result.to_input_list()
        answered_by, current = current.name, result.last_agent
        output = result.final_output
        reply = output if isinstance(output, str) else to_json(output).decode()
        return Reply(reply, _calls(result), agent=answered_by)

    return answer


def _calls(result: Any) -> list[ToolCall]:
    """Return the calls of function tools with their results."""
    results = {
        _of(item.raw_item, "call_id"): item.output
        for item in result.new_items
        if item.type == "tool_call_output_item"
    }
    return [
        ToolCall(
            _of(item.raw_item, "name"),
            parse_json(_of(item.raw_item, "arguments") or "{}"),
            parse_json(results[call_id])
            if isinstance(results[call_id], str)
            else json_value(results[call_id]),
        )
        for item in result.new_items
        if item.type == "tool_call_item" and (call_id := _of(item.raw_item, "call_id")) in results
    ]


def _of(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)
