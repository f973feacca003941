"""Agents that are functions of the user's text, of the conversation so far, or of both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from spangrade.evaluator.agents.adapters.adapter import Answer, Reply
from spangrade.evaluator.agents.adapters.reading import pieces, read_reply
from spangrade.evaluator.turn import Turn, UserTurn
from spangrade.tracer.base.errors import InputError


def converse(agent: Any, conversation_id: str) -> Answer | None:  # noqa: ARG001 (a function keeps no conversation)
    """Open a conversation with a sync or async callable, which may be a generator.

    Its first argument is the user's text. A parameter `history` gets the turns so far, as `UserTurn` and
    `AgentTurn`; a parameter `messages` gets them as `{"role", "content"}`. If there is no other parameter,
    the last of these is the user's text.

    Raises:
        InputError: it cannot be called like this.
    """
    if not callable(agent):
        return None
    history_parameter = _history_parameter(agent)
    takes_text = _takes_text(agent, history_parameter)

    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        turns = list(history) if takes_text else [*history, UserTurn(text)]
        named = {history_parameter: _FORMS[history_parameter](turns)} if history_parameter else {}
        arguments = (text,) if takes_text else ()
        return read_reply(await pieces(agent, *arguments, **named))

    return answer


def messages_of(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Return turns as messages of the roles user and assistant."""
    return [
        {"role": "user" if isinstance(turn, UserTurn) else "assistant", "content": str(turn.text)}
        for turn in turns
    ]


_FORMS: dict[str, Callable[[Sequence[Turn]], Any]] = {"history": list, "messages": messages_of}


def _history_parameter(agent: Callable[..., Any]) -> str | None:
    return next((name for name in _signature(agent).parameters if name in _FORMS), None)


def _takes_text(agent: Callable[..., Any], history_parameter: str | None) -> bool:
    """Return whether the user's text has a parameter of its own."""
    signature = _signature(agent)
    named = {history_parameter: None} if history_parameter else {}
    for arguments in (("text",), ()):
        try:
            signature.bind(*arguments, **named)
        except TypeError:
            continue
        if arguments or history_parameter:
            return bool(arguments)
    raise InputError(
        f"the agent {getattr(agent, '__name__', type(agent).__name__)}{signature} cannot be called with the "
        "user's text: it should take one text, and may take `history` or `messages`"
    )


def _signature(agent: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(agent)
    except ValueError:  # a builtin without one
        return inspect.Signature([inspect.Parameter("text", inspect.Parameter.POSITIONAL_ONLY)])
