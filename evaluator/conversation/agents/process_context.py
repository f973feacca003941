"""Agents in the style of voice SDKs: an object whose `process_context(context)` yields events."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spangrade.evaluator.conversation.agents.adapter import Answer, Reply
from spangrade.evaluator.conversation.agents.reading import pieces, read_reply
from spangrade.evaluator.turn import Turn


@dataclass(frozen=True)
class UserTranscriptionReceived:
    """What the user said."""

    content: str


@dataclass(frozen=True)
class AgentResponse:
    """What the agent said."""

    content: str


@dataclass(frozen=True)
class ConversationContext:
    """The conversation so far: `events` are the user's texts and all that the agent yielded."""

    events: list[Any]
    system_prompt: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_latest_user_transcript_message(self) -> str | None:
        """Return what the user said last."""
        said = (e.content for e in reversed(self.events) if type(e).__name__ == "UserTranscriptionReceived")
        return next(said, None)

    def get_committed_events(self) -> list[Any]:
        """Return the events: all that the agent said was heard to the end."""
        return self.events


def converse(agent: Any, conversation_id: str) -> Answer | None:  # noqa: ARG001 (the context is the conversation)
    """Open a conversation with an object that has a `process_context`."""
    process = getattr(agent, "process_context", None)
    if not callable(process):
        return None
    heard, spoken = _event(agent, UserTranscriptionReceived), _event(agent, AgentResponse)
    events: list[Any] = []

    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        if not events:
            events.extend(spoken(content=turn.text) for turn in history)
        events.append(heard(content=text))
        context = ConversationContext(list(events), str(getattr(agent, "system_prompt", None) or ""))
        said = [piece async for piece in pieces(process, context)]
        events.extend(spoken(content=piece) if isinstance(piece, str) else piece for piece in said)
        reply = read_reply(said)
        return reply._replace(tool_calls=reply.tool_calls or [])  # it would have yielded them

    return answer


def _event(agent: Any, ours: type) -> Callable[..., Any]:
    """Return the class of that name in the SDK that the agent extends, for its `isinstance` to hold."""
    for base in type(agent).__mro__:
        events = sys.modules.get(f"{base.__module__.partition('.')[0]}.events")
        if theirs := getattr(events, ours.__name__, None):
            return theirs  # type: ignore[no-any-return]
    return ours
