"""What a whole run was asked and answered, from the input and output that its span records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spangrade.converters import langchain
from spangrade.converters.observation import text

_ASKED = ("input", "question", "query", "user_msg", "user_message", "message", "task", "prompt")
_ANSWERED = ("raw", "output", "answer", "response", "result", "content")


def asked(value: Any, *, topmost: bool) -> str | None:
    """Return what the user said: the last message of theirs, or the text that the `topmost` run was given."""
    return langchain.last_text(value, "user") or (_told(value, _ASKED) if topmost else None)


def answered(value: Any, *, topmost: bool) -> str | None:
    """Return what the user was told: the last message of a model, or the text that the `topmost` run gave."""
    return langchain.last_text(value, "assistant") or (_told(value, _ANSWERED) if topmost else None)


def arguments(value: Any) -> Any:
    """Return a function's arguments by name, unwrapped from `{"args": [], "kwargs": {...}}`.

    None if some are known by position only, or are Python's repr.
    """
    if isinstance(value, dict) and isinstance(value.get("kwargs"), dict) and "args" in value:
        return None if value["args"] else value["kwargs"]
    if isinstance(value, str) and value.startswith("{"):
        return None
    return value


def _told(value: Any, keys: Sequence[str]) -> str | None:
    """Return a text: the value itself, that of a known name, or the only one there is."""
    if isinstance(value, dict):
        named = next((value[key] for key in keys if isinstance(value.get(key), str)), None)
        value = next(iter(value.values())) if named is None and len(value) == 1 else named
    return text(value)
