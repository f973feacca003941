"""The interface of adapters: a conversation with an agent of any kind is a function to call for each turn.

Adapters are entry points of the group `spangrade.agents`. They recognize their kind of agent by the name of
the module that defines its class, so that no framework is imported that the test does not use.

For fault drills of tools that a framework calls, an adapter passes the function that runs one to `drilled`.
In a drill each such call is a span of its own, with its fault; where the framework has one for the call, too,
the session has it once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from spangrade.evaluator.turn import ToolCall, Turn, TurnEvent
from spangrade.tracer._operation import current_session, never_raising
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.plugins import load_plugins
from spangrade.tracer.frameworks import switch_on
from spangrade.tracer.instrument import Tool

GROUP = "spangrade.agents"
FALLBACK = "callable"
F = TypeVar("F", bound=Callable[..., Any])


class Reply(NamedTuple):
    """What an agent returned in one turn; a part that its return value lacks is None.

    `events` are further values that it yielded, each with the number of calls before it. `agent` is the name
    of the object, for an agent whose spans name none. `instead` are keys of the answer that look like
    `tool_calls`, `disputed` the calls that these have beyond `tool_calls`; `to_record` says how such
    an agent's calls are recorded. `stated` says that the agent itself lists its calls, which count without a
    span, too.
    """

    text: str | None = None
    tool_calls: list[ToolCall] | None = None
    state: Mapping[str, Any] | None = None
    events: tuple[tuple[int, TurnEvent], ...] = ()
    agent: str | None = None
    instead: tuple[str, ...] = ()
    disputed: tuple[Any, ...] = ()
    stated: bool = False
    to_record: str = "decorate its tools with @spangrade.tool, or return its `tool_calls` ([] for none)"


Answer = Callable[[str, Sequence[Turn]], Coroutine[Any, Any, Reply]]
"""Pass the user's text, and the turns before it, to the agent and return its reply."""

Adapter = Callable[[Any, str], Answer | None]
"""Open a conversation with an agent, by the given id; return None for another kind of agent."""


def converse(agent: object, conversation_id: str) -> Answer:
    """Open a conversation with an agent, whose framework records its own spans from now on if it has any.

    Raises:
        InputError: no adapter supports this kind of agent.
    """
    switch_on()
    for adapter in _adapters().values():
        answer = adapter(agent, conversation_id)
        if answer is not None:
            return answer
    raise InputError(
        f"the agent is {agent!r:.80}, which no adapter supports ({', '.join(_adapters())}): "
        "wrap it in a function that takes the user's text and returns the agent's"
    )


@cache
def _adapters() -> Mapping[str, Adapter]:
    """Return the installed adapters by name; the one for plain callables is last."""
    found = load_plugins(GROUP)
    found[FALLBACK] = found.pop(FALLBACK)
    return found


def comes_from(agent: object, package: str) -> bool:
    """Return whether an agent's class, or a base class of it, is defined in a package."""
    modules = (base.__module__ for base in type(agent).__mro__)
    return any(module == package or module.startswith(f"{package}.") for module in modules)


def in_drill() -> bool:
    """Return whether the conversation in progress is a fault drill."""
    session = current_session()
    return session is not None and session.faults is not None


def drilled(name: str, function: F, arguments: Callable[[Mapping[str, Any]], object]) -> F:
    """Return a function that runs the tool `name` and, in a drill, does what its faults ask for.

    `arguments` picks the tool's arguments from those of `function`, by name. A function that is drilled
    already is returned as it is.
    """
    if hasattr(function, "is_drilled"):
        return function
    in_its_span = _Call(name, arguments)(function)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return (in_its_span if in_drill() else function)(*args, **kwargs)

    cast(Any, run).is_drilled = True
    return cast(F, run)


class _Call(Tool):
    """A call of a tool that a framework makes, through a function with parameters of the framework's."""

    of_framework = True

    def __init__(self, name: str, arguments: Callable[[Mapping[str, Any]], object]) -> None:
        super().__init__(name)
        self._pick = arguments

    @never_raising
    def called(self, name_arguments: Callable[[], dict[str, Any]]) -> None:
        """Record the tool's arguments among those of the function."""
        if self.records_content:
            self.arguments(self._pick(name_arguments()))
