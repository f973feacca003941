"""Fault drills of tools that a framework calls: an adapter passes the function that runs one to `drilled`.

In a drill each such call is a span of its own, with its fault; where the framework has one for the call, too,
the session has it once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from spangrade.tracer._operation import current_session, never_raising
from spangrade.tracer.instrument import Tool

F = TypeVar("F", bound=Callable[..., Any])


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
