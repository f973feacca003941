"""Agents of voice SDKs: an object whose `process_context(context)` yields events."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spangrade.evaluator.agents.adapters.adapter import Answer, Reply
from spangrade.evaluator.agents.adapters.reading import pieces, read_reply
from spangrade.evaluator.turn import Turn


@dataclass(frozen=True)
class UserTranscriptionReceived:
    """A message of the user."""

    content: str


@dataclass(frozen=True)
class AgentResponse:
    """A message of the agent."""

    content: str


@dataclass(frozen=True)
class ConversationContext:
    """The conversation so far: `events` are the user's messages and everything that the agent yielded."""

    events: list[Any]
    system_prompt: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_latest_user_transcript_message(self) -> str | None:
        """Return the user's last message."""
        for event in reversed(self.events):
            if type(event).__name__ == "UserTranscriptionReceived":
                return str(event.content)
        return None

    def get_committed_events(self) -> list[Any]:
        """Return the events: no message of the agent was interrupted."""
        return self.events


def converse(agent: Any, conversation_id: str) -> Answer | None:  # noqa: ARG001 (the context is the conversation)
    """Open a conversation with an object that has a `process_context`."""
    process = getattr(agent, "process_context", None)
    if not callable(process):
        return None
    from_user, from_agent = _event_class(agent, UserTranscriptionReceived), _event_class(agent, AgentResponse)
    events: list[Any] = []

    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        if not events:
            events.extend(from_agent(content=turn.text) for turn in history)
        events.append(from_user(content=text))
        context = ConversationContext(list(events), str(getattr(agent, "system_prompt", None) or ""))
        yielded = await pieces(process, context)
        events.extend(from_agent(content=piece) if isinstance(piece, str) else piece for piece in yielded)
        reply = read_reply(yielded)
        calls = reply.tool_calls or (None if reply.instead else [])  # such an agent yields its tool calls
        return reply._replace(tool_calls=calls)

    return answer


def _event_class(agent: Any, ours: type) -> Callable[..., Any]:
    """Return the class of this name in the SDK that the agent extends, for its `isinstance` checks."""
    for base in type(agent).__mro__:
        events = sys.modules.get(f"{base.__module__.partition('.')[0]}.events")
        if theirs := getattr(events, ours.__name__, None):
            return theirs  # type: ignore[no-any-return]
    return ours
