"""Agents of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from pydantic_core import to_json

from spangrade.converters.spans.values import parse_json
from spangrade.evaluator.agents.adapters.adapter import Answer, Reply, comes_from, drilled, in_drill
from spangrade.evaluator.agents.adapters.callables import messages_of
from spangrade.evaluator.turn import ToolCall, Turn
from spangrade.tracer.base.canonical_json import json_value


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
        said = [*earlier, {"role": "user", "content": text}]
        result = await Runner.run(current, said, hooks=_drill() if in_drill() else None)
        items[:] = result.to_input_list()
        answered_by, current = current.name, result.last_agent
        output = result.final_output
        reply = output if isinstance(output, str) else to_json(output).decode()
        return Reply(reply, _calls(result), agent=answered_by)

    return answer


def _drill() -> Any:
    """Return hooks with which function tools do what a drill asks for; a failure is handled as the tool's."""
    from agents import RunHooks
    from agents.tool import with_function_tool_failure_error_handler

    class Drill(RunHooks[Any]):  # type: ignore[misc]
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:  # noqa: ARG002
            if not hasattr(tool, "on_invoke_tool") or hasattr(tool, "is_drilled"):
                return
            invoke = tool.on_invoke_tool

            async def run(context: Any, arguments: str) -> Any:
                return await invoke(context, arguments)

            through_drill = drilled(tool.name, run, lambda named: parse_json(named["arguments"] or "{}"))
            bound = copy(tool)
            bound.on_invoke_tool = with_function_tool_failure_error_handler(through_drill, lambda *_: None)
            tool.on_invoke_tool = copy(bound).on_invoke_tool  # a copy binds it to the tool's own handler
            tool.is_drilled = True

    return Drill()


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
