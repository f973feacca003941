"""A conversation at a model call: the messages of its request, read once, and digests that place the call.

Every call of a model repeats the messages of its turn, and often those of the whole conversation. What was
parsed, counted and digested of them is taken from the list that the text begins with. A history is what an
earlier call ended with: digests link the calls of a client that records no conversation id.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple, TypeGuard

import orjson

from spangrade.converters.spans.messages import Message, is_of_user, message_of
from spangrade.converters.spans.observation import Digests, MessageCall

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


_KEPT = "resp_"  # how the ids of the responses begin that OpenAI's server keeps


def conversation_digests(inputs: Any, outputs: Any) -> Digests | None:
    """Return the digests of a conversation at a model call; None if the call has no input messages.

    A response differs a little from its repetition in the next request. So only texts without white space
    count and, after the last text, the model's tool calls. Earlier tool calls and their results do not: some
    clients leave them out, others clear them later.
    """
    return digests_of(placed(map(message_of, inputs if isinstance(inputs, list) else [inputs])), outputs)


class Placed(NamedTuple):
    """A request: the `whole` conversation, its part up to the model's last message, and the `new` part."""

    whole: _Conversation
    history: _Conversation | None
    new: list[Message]


def placed(messages: Iterable[Message | None], before: Placed | None = None) -> Placed:
    """Return a request by its messages, those that follow `before`."""
    whole, history, new = (_Conversation(), None, []) if before is None else before
    whole, new = whole.copy(), list(new)
    counted = list(filter(_counts, messages))
    last = max((i for i, message in enumerate(counted) if message.role == "assistant"), default=-1)
    for i, message in enumerate(counted):
        whole.add(message)
        if i == last:
            history, new = whole.copy(), []
        else:
            new.append(message)
    return Placed(whole, history, new)


def digests_of(request: Placed, outputs: Any) -> Digests | None:
    """Return the digests of a conversation at a call; None if the request has no messages."""
    whole, before, new = request
    if before is None and not new:
        return None
    history = None if before is None else before.digest()
    if answered := _answered_calls(new):
        history = whole.with_ids(answered)
    with_request = whole.digest(*(str(r.result) for message in new for r in message.tool_results))
    read = map(message_of, outputs if isinstance(outputs, list) else [outputs])
    response = [message for message in filter(_counts, read) if message.role == "assistant"]
    called = [call.call_id for message in response for call in _requested(message) if call.call_id]
    conversation = whole.copy()
    for message in response:
        conversation.add(message)
    return Digests(
        history,
        with_request,
        conversation.digest() if response else None,
        whole.with_ids(called) if called else None,
    )


def _counts(message: Message | None) -> TypeGuard[Message]:
    return message is not None and message.role != "system" and any(message[1:4])


def _requested(message: Message) -> Iterator[MessageCall]:
    """Yield the calls that a client runs: what the provider ran is often left out of later requests."""
    return (call for call in message.tool_calls if not call.by_provider)


def with_responses(digests: Digests | None, previous: str | None, response_id: str | None) -> Digests | None:
    """Return the digests of a call to an API that keeps conversations, by the responses that they are of.

    `previous` is the id of the response that the call continues: its request has only what is new.
    """
    if previous is None and not (response_id or "").startswith(_KEPT):
        return digests
    known = digests or Digests(None, f"{previous} {response_id}", None)
    return known._replace(history=previous or known.history, response_id=response_id)


def _answered_calls(new: list[Message]) -> list[str]:
    """Return the ids of the calls whose results follow the user's message directly."""
    asked = next(
        (i for i, m in enumerate(new) if m.role == "user" and m.text and not m.tool_results), len(new)
    )
    return [result.call_id for m in new[asked:] for result in m.tool_results if result.call_id]


class _Conversation:
    def __init__(self) -> None:
        self._texts = blake2b(digest_size=16)
        self._role: str | None = None
        self._calls: list[str] = []

    def copy(self) -> _Conversation:
        copied = _Conversation.__new__(_Conversation)
        copied._texts, copied._role, copied._calls = self._texts.copy(), self._role, self._calls.copy()
        return copied

    def add(self, message: Message) -> None:
        if message.text and message.role != "tool":
            if message.role != self._role:
                self._role = message.role
                self._texts.update(f"\0{message.role}\0".encode())
            self._texts.update("".join(message.text.split()).encode("utf-8", "replace"))
            self._calls.clear()
        # Some leave empty arguments out of the response, and not of its repetition.
        self._calls += [f"{call.name}\0{call.arguments or '{}'}" for call in _requested(message)]

    def digest(self, *results: str) -> str:
        return self._digest(*self._calls, *results)

    def with_ids(self, call_ids: list[str]) -> str:
        """Return the digest of the texts, and of the ids of the calls that follow them."""
        return self._digest("ids", *sorted(call_ids))

    def _digest(self, *steps: str) -> str:
        digest = self._texts.copy()
        for step in steps:
            digest.update(f"\0\0{step}".encode("utf-8", "replace"))
        return digest.hexdigest()
