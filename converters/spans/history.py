"""Where a model call stands in a conversation, told by the messages alone.

A request repeats the conversation so far: what one call has reached, the next one goes on from. That links
the calls of a client that records no conversation id.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from spangrade.converters.spans.messages import Message, message_of
from spangrade.converters.spans.observation import Thread


def thread(inputs: Any, outputs: Any) -> Thread | None:
    """Return where a call with these messages stands; None if it has no input messages.

    A message differs a little between an answer and its repetition in the next request, so only what was
    said counts: texts without white space, and after the last text the model's tool calls. What tools
    were called before, and what they returned, some clients leave out and some clear later on.
    """
    heard = _read(inputs)
    if not heard:
        return None
    last = max((i for i, message in enumerate(heard) if message.role == "assistant"), default=-1)
    said = _Said()
    for message in heard[: last + 1]:
        said.add(message)
    history = said.key() if last >= 0 else None
    for message in heard[last + 1 :]:
        said.add(message)
    asked = said.key(*(str(r.result) for message in heard[last + 1 :] for r in message.tool_results))
    answers = [message for message in _read(outputs) if message.role == "assistant"]
    for message in answers:
        said.add(message)
    return Thread(history, asked, said.key() if answers else None)


def _read(messages: Any) -> list[Message]:
    listed = messages if isinstance(messages, list) else [messages]
    return [
        message
        for message in map(message_of, listed)
        if message is not None and message.role != "system" and any(message[1:])
    ]


class _Said:
    def __init__(self) -> None:
        self._texts = blake2b(digest_size=16)
        self._speaker: str | None = None
        self._calls: list[str] = []

    def add(self, message: Message) -> None:
        if message.text and message.role != "tool":
            if message.role != self._speaker:
                self._speaker = message.role
                self._texts.update(f"\0{message.role}\0".encode())
            self._texts.update("".join(message.text.split()).encode("utf-8", "replace"))
            self._calls.clear()
        self._calls += [f"{call.name}\0{call.arguments}" for call in message.tool_calls]

    def key(self, *more: str) -> str:
        digest = self._texts.copy()
        for step in (*self._calls, *more):
            digest.update(f"\0\0{step}".encode("utf-8", "replace"))
        return digest.hexdigest()
