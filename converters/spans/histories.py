"""Lists of messages as JSON text, each of which repeats the one before: only what is new is read.

Every call of a model repeats the messages of its turn, and often those of the whole conversation.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import orjson

from spangrade.converters.spans.messages import Message, message_of

_LONG = 4096  # characters; shorter lists are parsed about as fast as they are compared
_BEGINNING = 256  # characters by which the lists of several agents in one conversation are told apart
_MAX_CHARACTERS = 8_000_000  # of the lists that are remembered


class _List(NamedTuple):
    """The text of a list without its closing bracket, and the messages in it."""

    text: str
    messages: list[Message | None]


class _Memory(threading.local):
    """The newest list of each conversation and beginning, the one used last at the end."""

    def __init__(self) -> None:
        self.lists: dict[tuple[str, str], _List] = {}
        self.characters = 0

    def put(self, key: tuple[str, str], found: _List) -> None:
        self.take(key)
        self.lists[key] = found
        self.characters += len(found.text)
        while self.characters > _MAX_CHARACTERS:
            self.take(next(iter(self.lists)))

    def take(self, key: tuple[str, str]) -> None:
        if known := self.lists.pop(key, None):
            self.characters -= len(known.text)


_memory = _Memory()


def messages_in(text: str, conversation: str) -> list[Message | None] | None:
    """Return the messages in the JSON text of a long list; None if it is short or not a list.

    Where the text begins with the last list of the conversation, only what follows is parsed.
    """
    if len(text) < _LONG or not text.startswith("["):
        return None
    key = (conversation, text[:_BEGINNING])
    known = _memory.lists.get(key)
    messages = None if known is None else _continued(known, text)
    if messages is None:
        listed = _json_list(text)
        if not listed:
            return None
        messages = list(map(message_of, listed))
    _memory.put(key, _List(text.rstrip().removesuffix("]").rstrip(), messages))
    return messages


def forget_messages() -> None:
    """Forget the lists that this thread has read."""
    _memory.lists.clear()
    _memory.characters = 0


def _continued(known: _List, text: str) -> list[Message | None] | None:
    """Return the messages of a text that repeats a list and goes on; None if it does not."""
    length = len(known.text)
    if not text.startswith(known.text) or text[length : length + 1] != ",":
        return None
    added = _json_list(f"[{text[length + 1 :]}")
    return [*known.messages, *map(message_of, added)] if added else None


def _json_list(text: str) -> list[Any] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, list) else None
