"""Agents of pydantic-ai."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from spangrade.evaluator.agents.adapters.adapter import Answer, Reply, comes_from, drilled, in_drill
from spangrade.evaluator.turn import ToolCall, Turn
from spangrade.tracer.base.canonical_json import json_value


def converse(agent: Any, conversation_id: str) -> Answer | None:  # noqa: ARG001 (the messages are the conversation)
    """Open a conversation with a pydantic-ai agent; an output that is not a text becomes JSON."""
    if not (comes_from(agent, "pydantic_ai") and hasattr(agent, "run")):
        return None
    messages: list[Any] = []
    name = agent.name  # before the first run, which takes that of a variable here

    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        if not messages:
            messages.extend(_opening(turn) for turn in history)
        drill = {"capabilities": [_drill()]} if in_drill() else {}
        result = await agent.run(text, message_history=messages or None, **drill)
        messages[:] = result.all_messages()
        output = result.output
        reply = output if isinstance(output, str) else to_json(output).decode()
        return Reply(reply, _calls(result), agent=name)

    return answer


def _drill() -> Any:
    """Return a capability with which the tools of a run do what a drill asks for."""
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.toolsets import WrapperToolset

    given: dict[
        str | None, Any
    ] = {}  # the model's arguments by the id of the call: a tool also gets defaults

    class Drilled(WrapperToolset[Any]):  # type: ignore[misc]
        async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
            call = drilled(name, super().call_tool, lambda _: given.get(ctx.tool_call_id, tool_args))
            return await call(name, tool_args, ctx, tool)

    class Drill(AbstractCapability[Any]):  # type: ignore[misc]
        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:  # noqa: ARG002
            given[call.tool_call_id] = call.args_as_dict()
            return args

        def get_wrapper_toolset(self, toolset: Any) -> Any:
            return Drilled(toolset)

    return Drill()


def _opening(turn: Turn) -> Any:
    from pydantic_ai.messages import ModelResponse, TextPart

    return ModelResponse(parts=[TextPart(str(turn.text))])


def _calls(result: Any) -> list[ToolCall]:
    """Return the tool calls in this run's messages: an agent emits no spans unless instrumented."""
    output_tool = getattr(result, "_output_tool_name", None)  # no public attribute names it
    parts = [part for message in result.new_messages() for part in message.parts]
    results = {part.tool_call_id: part.content for part in parts if part.part_kind == "tool-return"}
    return [
        ToolCall(part.tool_name, json_value(part.args_as_dict()), json_value(results[part.tool_call_id]))
        for part in parts
        if part.part_kind == "tool-call" and part.tool_call_id in results and part.tool_name != output_tool
    ]
