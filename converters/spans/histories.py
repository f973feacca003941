"""Lists of messages as JSON text, each of which repeats one before: only new messages are read.

Every call of a model repeats the messages of its turn, and often those of the whole conversation. What was
parsed, counted and digested of them is taken from the list that the text begins with.
"""

from __future__ import annotations

import threading
from typing import Any

import orjson

from spangrade.converters.spans.digests import Placed, digests_of, placed
from spangrade.converters.spans.messages import Message, is_of_user, message_of
from spangrade.converters.spans.observation import Digests

_SHORT = 256  # characters; shorter lists are parsed about as fast as they are compared
_BEGINNING = 256  # characters by which the lists of several agents are told apart
_MOST_ALIKE = 256  # lists with one beginning, such as the instructions of an agent with many users
_MAX_CHARACTERS = 8_000_000  # of the lists that are remembered


class History:
    """The messages of a request. `users` are the numbers of the user's own before each message, and in all.

    `text` is that of the list, without its closing bracket.
    """

    text: str
    messages: list[Message | None]
    users: list[int]
    _placed: Placed | None
    __slots__ = ("_placed", "messages", "text", "users")

    def __init__(self, text: str, added: list[Any], known: History | None = None) -> None:
        self.text = text.rstrip().removesuffix("]").rstrip()
        new = list(map(message_of, added))
        self.messages = new if known is None else [*known.messages, *new]
        self.users = [0] if known is None else known.users.copy()
        for message in new:
            self.users.append(self.users[-1] + is_of_user(message))
        self._placed = None if known is None or known._placed is None else placed(new, known._placed)

    def digests(self, outputs: Any) -> Digests | None:
        """Return the digests of the conversation at a call with this request and these outputs."""
        if self._placed is None:
            self._placed = placed(self.messages)
        return digests_of(self._placed, outputs)


class _Memory(threading.local):
    """Histories by number, the one used last at the end, and their numbers by conversation and beginning."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.histories: dict[int, tuple[tuple[str, str], History]] = {}
        self.alike: dict[tuple[str, str], list[int]] = {}
        self.characters = 0
        self._number = 0

    def put(self, key: tuple[str, str], history: History) -> None:
        self._number += 1
        self.histories[self._number] = key, history
        alike = self.alike.setdefault(key, [])
        alike.append(self._number)
        self.characters += len(history.text)
        if len(alike) > _MOST_ALIKE:
            self.drop(alike[0])
        while self.characters > _MAX_CHARACTERS:
            self.drop(next(iter(self.histories)))

    def drop(self, number: int) -> None:
        key, history = self.histories.pop(number)
        self.characters -= len(history.text)
        alike = self.alike[key]
        alike.remove(number)
        if not alike:
            del self.alike[key]


_memory = _Memory()


def history_of(text: str, conversation: str | None) -> History | None:
    """Return the messages in the JSON text of a list; None if it is short, empty or not a list.

    Where the text begins with a list of the conversation that was read, only what follows is read. Without a
    conversation it is any list.
    """
    if len(text) < _SHORT or not text.startswith("["):
        return None
    key = (conversation or "", text[:_BEGINNING])
    for number in reversed(_memory.alike.get(key, ())):
        known = _memory.histories[number][1]
        if text.startswith(known.text) and (history := _continued(known, text)) is not None:
            _memory.drop(number)
            break
    else:
        listed = _json_list(text)
        if not listed:
            return None
        history = History(text, listed)
    _memory.put(key, history)
    return history


def forget_histories() -> None:
    """Forget the lists that this thread has read."""
    _memory.clear()


def _continued(known: History, text: str) -> History | None:
    """Return the messages of a text that repeats a list, and may go on; None if it goes on in another way."""
    length = len(known.text)
    rest = text[length:]
    if rest.strip() == "]":
        return known
    if not rest.startswith(","):
        return None
    added = _json_list(f"[{rest[1:]}")
    return History(text, added, known) if added else None


def _json_list(text: str) -> list[Any] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, list) else None
