"""The seam of the agents: one conversation with an agent of any kind is one function to call a turn.

An adapter is found by the entry point group `spangrade.agents`. It knows its kind of agent by the name of
the module that the class comes from: nothing is imported to recognise a framework, or not to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from spangrade.evaluator.turn import ToolCall, Turn
from spangrade.tracer.errors import InputError
from spangrade.tracer.plugins import load_plugins

GROUP = "spangrade.agents"
FALLBACK = "callable"


class Reply(NamedTuple):
    """What an agent handed back in one turn; None is what it does not say."""

    text: str | None = None
    tool_calls: list[ToolCall] | None = None


Answer = Callable[[str, Sequence[Turn]], Awaitable[Reply]]
"""Gives the agent the user's text, and the turns before it, and returns what it handed back."""

Adapter = Callable[[Any, str], Answer | None]
"""Opens a conversation of the given id with an agent; returns None for what is not its kind of agent."""


def converse(agent: object, conversation_id: str) -> Answer:
    """Open a conversation with an agent.

    Raises:
        InputError: no adapter knows this kind of agent.
    """
    for adapter in _adapters().values():
        answer = adapter(agent, conversation_id)
        if answer is not None:
            return answer
    raise InputError(
        f"the agent is {agent!r:.80}, which no adapter knows ({', '.join(_adapters())}): "
        "wrap it in a function that takes the user's text and returns the agent's"
    )


@cache
def _adapters() -> Mapping[str, Adapter]:
    """Return the installed adapters by name; the one of plain callables is asked last."""
    found = load_plugins(GROUP)
    found[FALLBACK] = found.pop(FALLBACK)
    return found


def comes_from(agent: object, package: str) -> bool:
    """Tell whether an agent's class, or one that it extends, is defined in a package."""
    modules = (base.__module__ for base in type(agent).__mro__)
    return any(module == package or module.startswith(f"{package}.") for module in modules)
