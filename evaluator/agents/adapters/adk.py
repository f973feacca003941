"""Agents of Google's Agent Development Kit, through their runner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spangrade.evaluator.agents.adapters.adapter import Answer, Reply, comes_from, drilled, in_drill
from spangrade.evaluator.turn import ToolCall, Turn
from spangrade.tracer.base.canonical_json import json_value

_USER = "user"
_PLUGIN = "spangrade_drill"


def converse(agent: Any, conversation_id: str) -> Answer | None:
    """Open a session with an ADK agent, or that of a `Runner`; its id is the conversation's."""
    if comes_from(agent, "google.adk") and hasattr(agent, "sub_agents"):
        from google.adk.runners import InMemoryRunner

        agent = InMemoryRunner(agent=agent, app_name=agent.name)
    if not (
        comes_from(agent, "google.adk") and hasattr(agent, "run_async") and hasattr(agent, "session_service")
    ):
        return None

    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        from google.genai import types

        if in_drill():
            _drill(agent)
        key = {"app_name": agent.app_name, "user_id": _USER, "session_id": conversation_id}
        if await agent.session_service.get_session(**key) is None:
            await _open(agent, key, history)
        message = types.UserContent(text)
        events = agent.run_async(user_id=_USER, session_id=conversation_id, new_message=message)
        return _reply([event async for event in events if not event.partial])

    return answer


def _drill(runner: Any) -> None:
    """Let the tools of a runner's agents do what a drill asks for, just before each runs."""
    from google.adk.plugins.base_plugin import BasePlugin

    class Drill(BasePlugin):  # type: ignore[misc]
        async def before_tool_callback(self, *, tool: Any, **_: Any) -> None:
            tool.run_async = drilled(tool.name, tool.run_async, lambda named: named.get("args"))

    if runner.plugin_manager.get_plugin(_PLUGIN) is None:
        runner.plugin_manager.register_plugin(Drill(name=_PLUGIN))


async def _open(runner: Any, key: dict[str, str], history: Sequence[Turn]) -> None:
    from google.adk.events import Event
    from google.genai import types

    session = await runner.session_service.create_session(**key)
    for turn in history:
        opening = Event(author=runner.agent.name, content=types.ModelContent(str(turn.text)))
        await runner.session_service.append_event(session, opening)


def _reply(events: Sequence[Any]) -> Reply:
    """Return the reply in the events: spans have arguments and results only if content is captured."""
    texts = [
        part.text
        for event in events
        if event.is_final_response() and event.content
        for part in event.content.parts or ()
        if part.text and not part.thought
    ]
    results = {result.id: result.response for event in events for result in event.get_function_responses()}
    calls = [
        ToolCall(call.name, json_value(call.args or {}), json_value(results[call.id]))
        for event in events
        for call in event.get_function_calls()
        if call.id in results
    ]
    return Reply("".join(texts) if texts else None, calls)
