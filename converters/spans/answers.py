"""Calls by which a model gives its answer: they run nothing, and are the reply."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from spangrade.converters.spans.values import parse_json
from spangrade.tracer.base.canonical_json import canonical

# smolagents and others; pydantic-ai, for an output of one type; ADK; LiteLLM, for an answer of a schema.
_NAMES = frozenset({"final_answer", "final_result", "set_model_response", "json_tool_call"})
_OF_TYPES = "final_result_"  # pydantic-ai's, for an output of several types: the type's name follows
_WRAPPING = frozenset({"answer", "response"})  # the only argument, around a bare answer


@lru_cache(maxsize=4096)
def is_answer(name: str) -> bool:
    """Return whether a call of this name is the agent's answer and no call of a tool."""
    return name in _NAMES or (name.startswith(_OF_TYPES) and len(name) > len(_OF_TYPES))


def answer_in(calls: Iterable[tuple[Any, Any]]) -> str | None:
    """Return the text of the last answer in calls, each a name and arguments; None if none is an answer.

    It is the text that the call wraps, else its arguments as JSON.
    """
    found: str | None = None
    for name, arguments in calls:
        if isinstance(name, str) and is_answer(name) and (given := parse_json(arguments)) is not None:
            if isinstance(given, dict) and len(given) == 1 and given.keys() <= _WRAPPING:
                (given,) = given.values()
            found = given if isinstance(given, str) else canonical(given)
    return found
