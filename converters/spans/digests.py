"""Digests of the conversation that a model call is part of, made from its messages alone.

A request repeats the conversation so far, so its history is what an earlier call ended with. That links the
calls of a client that records no conversation id.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from spangrade.converters.spans.messages import Message, message_of
from spangrade.converters.spans.observation import Digests

_KEPT = "resp_"  # how the ids of the responses begin that OpenAI's server keeps


def conversation_digests(inputs: Any, outputs: Any) -> Digests | None:
    """Return the digests of a conversation at a model call; None if the call has no input messages.

    A response differs a little from its repetition in the next request. So only texts without white space
    count and, after the last text, the model's tool calls. Earlier tool calls and their results do not: some
    clients leave them out, others clear them later.
    """
    request = _messages(inputs)
    if not request:
        return None
    last = max((i for i, message in enumerate(request) if message.role == "assistant"), default=-1)
    conversation = _Conversation()
    for message in request[: last + 1]:
        conversation.add(message)
    history = conversation.digest() if last >= 0 else None
    new = request[last + 1 :]
    if answered := _answered_calls(new):
        history = _digest_of(request, answered)
    for message in new:
        conversation.add(message)
    with_request = conversation.digest(*(str(r.result) for message in new for r in message.tool_results))
    response = [message for message in _messages(outputs) if message.role == "assistant"]
    for message in response:
        conversation.add(message)
    called = [call.call_id for message in response for call in message.tool_calls if call.call_id]
    with_call_ids = _digest_of(request, called) if called else None
    return Digests(history, with_request, conversation.digest() if response else None, with_call_ids)


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


def _digest_of(request: list[Message], call_ids: list[str]) -> str:
    conversation = _Conversation()
    for message in request:
        conversation.add(message._replace(tool_calls=()))
    return conversation.digest("ids", *sorted(call_ids))


def _messages(messages: Any) -> list[Message]:
    listed = messages if isinstance(messages, list) else [messages]
    return [
        message
        for message in map(message_of, listed)
        if message is not None and message.role != "system" and any(message[1:])
    ]


class _Conversation:
    def __init__(self) -> None:
        self._texts = blake2b(digest_size=16)
        self._role: str | None = None
        self._calls: list[str] = []

    def add(self, message: Message) -> None:
        if message.text and message.role != "tool":
            if message.role != self._role:
                self._role = message.role
                self._texts.update(f"\0{message.role}\0".encode())
            self._texts.update("".join(message.text.split()).encode("utf-8", "replace"))
            self._calls.clear()
        # Some leave empty arguments out of the response, and not of its repetition.
        self._calls += [f"{call.name}\0{call.arguments or '{}'}" for call in message.tool_calls]

    def digest(self, *results: str) -> str:
        digest = self._texts.copy()
        for step in (*self._calls, *results):
            digest.update(f"\0\0{step}".encode("utf-8", "replace"))
        return digest.hexdigest()
