"""Agents in another process: behind a URL of their own, or behind the chat completions API.

The trace goes along as W3C `traceparent`, the session and the question as baggage. So spans that the agent
sends to `spangrade collect` are of the same trace, and join the session.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry import baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import BaseModel, ConfigDict, ValidationError

from spangrade import tracer
from spangrade.evaluator.testing.agents.adapter import Answer, Reply
from spangrade.evaluator.testing.agents.callables import messages_of
from spangrade.evaluator.turn import ToolCall, Turn, UserTurn
from spangrade.tracer import semconv
from spangrade.tracer._operation import current_session
from spangrade.tracer.errors import InputError

if TYPE_CHECKING:
    import ssl

_PAUSES_S = (0.2, 1.0)  # before another attempt to connect
_MAX_SHOWN = 200  # characters of what a server answered


class AgentError(Exception):
    """An agent in another process that did not answer as it should."""


@dataclass(frozen=True)
class HttpAgent:
    """An agent behind a URL.

    For each turn it gets one POST of `{"session_id", "question_id", "turn", "text"}` and answers with
    `{"text", "tool_calls", "state"}`, of which the last two may be missing, or with a plain text. A tool call
    is `{"name", "arguments", "result"}`. Raises InputError for what is not an HTTP URL.
    """

    url: str

    def __post_init__(self) -> None:
        _check(self.url)


@dataclass(frozen=True)
class ChatAgent:
    """An agent, or a model, behind a server with OpenAI's chat completions API at `url`, such as `…/v1`.

    The key in `OPENAI_API_KEY` is sent if there is one. Raises InputError for what is not an HTTP URL.
    """

    url: str
    model: str

    def __post_init__(self) -> None:
        _check(self.url)


def converse(agent: Any, conversation_id: str) -> Answer | None:
    """Open a conversation with an `HttpAgent` or a `ChatAgent`."""
    if isinstance(agent, HttpAgent):
        return _http_answer(agent, conversation_id)
    if isinstance(agent, ChatAgent):
        return _chat_answer(agent)
    return None


class _Answered(BaseModel):
    model_config = ConfigDict(extra="ignore")

    text: str | None = None
    tool_calls: list[ToolCall] | None = None
    state: dict[str, Any] | None = None


def _http_answer(agent: HttpAgent, conversation_id: str) -> Answer:
    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        session = current_session()
        body = {
            "session_id": conversation_id,
            "question_id": None if session is None else session.question_id,
            "turn": 1 + sum(isinstance(turn, UserTurn) for turn in history),
            "text": text,
        }
        is_json, content = await _post(agent.url, body)
        if not is_json:
            return Reply(content)
        try:
            answered = _Answered.model_validate_json(content)
        except ValidationError as error:
            found = error.errors()[0]
            where = ".".join(map(str, found["loc"]))
            raise AgentError(f"{agent.url}: {where or 'the answer'}: {found['msg']}") from None
        return Reply(answered.text, answered.tool_calls, answered.state)

    return answer


def _chat_answer(agent: ChatAgent) -> Answer:
    url = f"{agent.url.rstrip('/').removesuffix('/chat/completions')}/chat/completions"
    key = os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        messages = messages_of([*history, UserTurn(text)])
        with tracer.llm_call(agent.model, "openai") as call:
            call.input(messages)
            _, content = await _post(url, {"model": agent.model, "messages": messages}, headers)
            try:
                completion = _Completion.model_validate_json(content)
            except ValidationError:
                raise AgentError(f"{url}: expected a chat completion, found {_cut(content)}") from None
            call.record(completion.model_dump())
        return Reply(completion.choices[0].message.content)

    return answer


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    content: str | None = None


class _Choice(BaseModel):
    model_config = ConfigDict(extra="allow")

    message: _Message


class _Completion(BaseModel):
    model_config = ConfigDict(extra="allow")

    choices: list[_Choice]


async def _post(url: str, body: object, headers: Mapping[str, str] = {}) -> tuple[bool, str]:
    """Return whether a server answers with JSON, and its answer; connect again if that fails.

    Raises AgentError if it answers with an error, or cannot be reached.
    """
    import httpx2

    async with httpx2.AsyncClient(verify=_tls(), timeout=None) as client:
        for pause_s in (*_PAUSES_S, None):
            try:
                answer = await client.post(url, json=body, headers={**headers, **_context()})
                break
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if pause_s is None:
                    raise AgentError(f"{url}: cannot be reached: {error}") from error
                await asyncio.sleep(pause_s)
            except httpx2.HTTPError as error:
                raise AgentError(f"{url}: {type(error).__name__}: {error}") from error
    if answer.is_error:
        raise AgentError(f"{url}: answered {answer.status_code}: {_cut(answer.text)}")
    return "json" in answer.headers.get("content-type", ""), answer.text


def _context() -> dict[str, str]:
    """Return the headers that carry the trace, the session and the question of the turn in progress."""
    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    if (session := current_session()) is not None:
        known = {
            semconv.CONVERSATION_ID: session.conversation_id,
            "session.id": session.conversation_id,
            semconv.QUESTION_ID: session.question_id,
        }
        context = None
        for name, value in known.items():
            if value is not None:
                context = baggage.set_baggage(name, value, context)
        W3CBaggagePropagator().inject(headers, context)
    return headers


@cache
def _tls() -> ssl.SSLContext:
    """Return the settings of TLS, which take 20 ms to make."""
    import httpx2

    return httpx2.create_ssl_context()


def _check(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{url}: expected a URL with http or https")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
