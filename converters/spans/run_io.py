"""What a whole run was asked and answered, from the input and output that its span records."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from spangrade.converters.spans import langchain_values
from spangrade.converters.spans.observation import Observation, json_text, text

_ASKED = ("input", "question", "query", "user_msg", "user_message", "message", "task", "prompt")
_CALL = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
_OBJECT = re.compile(r"[A-Z]\w*\(\w+=")  # Python's repr of an object, which nobody said
_DELEGATION = frozenset({"Delegate work to coworker", "delegate_work_to_coworker"})
_LONGEST = 100_000  # characters of Python's syntax that are parsed: some 10 ms
_ANSWERED = ("raw", "output", "answer", "response", "result", "content")


def asked(value: Any, *, topmost: bool) -> str | None:
    """Return what the user said: the last message of theirs, or the text that the `topmost` run was given."""
    return langchain_values.last_text(value, "user") or (_told(value, _ASKED) if topmost else None)


def answered(value: Any, *, topmost: bool) -> str | None:
    """Return what the user was told: the last message of a model, or the text that the `topmost` run gave."""
    return langchain_values.last_text(value, "assistant") or (_told(value, _ANSWERED) if topmost else None)


def arguments(value: Any, parameters: Any = None) -> Any:
    """Return a function's arguments by name, unwrapped from `{"args": [], "kwargs": {...}}`.

    None if some are known by position only. A bare value is the one that the JSON schema `parameters` has,
    if there is just one.
    """
    value = python_value(value)
    if isinstance(value, dict) and isinstance(value.get("kwargs"), dict) and value.keys() <= _CALL:
        return None if value.get("args") else value["kwargs"]
    named = parameters.get("properties") if isinstance(parameters, dict) else None
    if value is not None and not isinstance(value, dict) and isinstance(named, dict) and len(named) == 1:
        return {next(iter(named)): value}
    return value


def answer(seen: Observation, value: Any) -> dict[str, Any]:
    """Return what a tool's answer changes of its observation, where it is of a framework's own type."""
    if isinstance(value, dict) and value.keys() >= {"tool_name", "raw_output"}:  # LlamaIndex
        failed = seen.failed or value.get("is_error") is True
        return {"result": json_text(python_value(value["raw_output"])), "failed": failed}
    if isinstance(value, dict) and value.keys() >= {"name", "response"} and value["name"] == seen.name:  # ADK
        return {"result": json_text(value["response"]), "call_id": seen.call_id or text(value.get("id"))}
    return langchain_values.answer(seen, value)


def delegate(tool: str, arguments: Any) -> str | None:
    """Return the agent that crewAI's tool for it gives work to; None for every other tool."""
    if tool in _DELEGATION and isinstance(arguments, dict):
        return text(arguments.get("coworker"))
    return None


def python_value(value: Any) -> Any:
    """Return the dict or list whose `str()` a text is (`{'id': 1, 'paid': True}`), else the value itself."""
    if not isinstance(value, str) or not value.startswith(("{'", "[{'")) or len(value) > _LONGEST:
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return value


def _told(value: Any, keys: Sequence[str]) -> str | None:
    """Return a text: the value itself, that of a known name, or the only one there is."""
    if isinstance(value, dict):
        named = next((value[key] for key in keys if isinstance(value.get(key), str)), None)
        value = next(iter(value.values())) if named is None and len(value) == 1 else named
    return None if isinstance(value, str) and _OBJECT.match(value) else text(value)
