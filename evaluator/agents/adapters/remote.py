"""Agents in another process: behind a URL of their own, or behind the chat completions API.

The trace goes along as W3C `traceparent`, the session and the question as baggage. So spans that the agent
sends to `spangrade serve --only receive` are of the same trace, and join the session. The body that a server
expects, and the place of its answer, may be other than ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from json import JSONDecodeError
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from opentelemetry import baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from spangrade import tracer
from spangrade.evaluator.agents.adapters.adapter import Answer, Reply
from spangrade.evaluator.agents.adapters.callables import messages_of
from spangrade.evaluator.agents.adapters.reading import calls_in, calls_instead, read_answer
from spangrade.evaluator.turn import Turn, UserTurn
from spangrade.tracer import semconv
from spangrade.tracer._operation import current_session
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import DoubledKeyError, parse_written, refusal

if TYPE_CHECKING:
    import ssl

    import httpx2

_PAUSES_S = (0.2, 1.0)  # before another attempt to connect
_MAX_SHOWN = 200  # characters of what a server answered
_MAX_BYTES = 10_000_000  # of an answer, unpacked
_TO_RECORD = "answer with `tool_calls` ([] for none), or send its spans to `spangrade serve --only receive`"
_PLACEHOLDER = re.compile(r"\{(text|session_id|question_id|turn)\}")
_PATH = re.compile(r"\$(?:\.[^.\[\]\s]+|\[\d+\])*")
_STEP = re.compile(r"\.([^.\[\]\s]+)|\[(\d+)\]")
_MAX_KEYS = 10  # that a message names


class AgentError(Exception):
    """An agent in another process that did not answer as it should."""


class UnreachableError(AgentError):
    """An agent in another process to which there is no connection."""


@dataclass(frozen=True)
class HttpAgent:
    """An agent behind a URL.

    For each turn it gets one POST of `{"session_id", "question_id", "turn", "text"}` and answers with
    `{"text", "tool_calls", "state"}`, of which the last two may be missing, or with a plain text: see
    `read_answer`. A tool call is `{"name", "arguments", "result"}`.

    A server that expects something else stays as it is: `body` is a template in JSON, `{"q": "{text}"}`, in
    whose texts `{text}`, `{session_id}`, `{question_id}` and `{turn}` stand for their values, and `reply` is
    the path of the answer in what it returns: `$.data.reply`, `$.choices[0].text`. Raises InputError for what
    is not an HTTP URL, a template or a path.
    """

    url: str
    body: str | None = None
    reply: str | None = None

    def __post_init__(self) -> None:
        _check(self.url)
        if self.body is not None:
            template_of(self.body)
        if self.reply is not None:
            path_of(self.reply)


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


def _http_answer(agent: HttpAgent, conversation_id: str) -> Answer:
    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        session = current_session()
        body = {
            "session_id": conversation_id,
            "question_id": None if session is None else session.question_id,
            "turn": 1 + sum(isinstance(turn, UserTurn) for turn in history),
            "text": text,
        }
        is_json, content = await _post(agent.url, body if agent.body is None else filled(agent.body, body))
        if agent.reply is None and not (is_json or _is_answer(content)):
            return Reply(content, to_record=_TO_RECORD)
        try:
            value = parse_written(content)
            answered = value if agent.reply is None else at_path(value, agent.reply)
            if agent.reply is None or isinstance(answered, dict):
                return read_answer(answered)._replace(to_record=_TO_RECORD)
            said = answered if isinstance(answered, str | None) else dumps(answered)
            return Reply(said, to_record=_TO_RECORD)
        except JSONDecodeError as error:
            raise AgentError(f"{_shown(agent.url)}: {refusal(error)}") from None
        except ValueError as error:
            raise AgentError(f"{_shown(agent.url)}: {error}") from None

    return answer


def _is_answer(content: str) -> bool:
    """Return whether a text that is not declared as JSON is an object with the key `text` nevertheless."""
    try:
        value = parse_written(content)
    except JSONDecodeError as error:
        return isinstance(error, DoubledKeyError)
    return isinstance(value, dict) and "text" in value


def _chat_answer(agent: ChatAgent) -> Answer:
    url = f"{agent.url.rstrip('/').removesuffix('/chat/completions')}/chat/completions"
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InputError("$OPENAI_API_KEY: expected printable ASCII characters")
    headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def answer(text: str, history: Sequence[Turn]) -> Reply:
        messages = messages_of([*history, UserTurn(text)])
        with tracer.llm_call(agent.model, "openai") as call:
            call.span.set_attribute(semconv.DRIVEN, "{}")  # it is ours, and shows no call of the server's
            call.input(messages)
            _, content = await _post(url, {"model": agent.model, "messages": messages}, headers)
            try:
                completion = _Completion.model_validate(parse_written(content))
            except DoubledKeyError as error:
                raise AgentError(f"{_shown(url)}: {refusal(error)}") from None
            except ValueError:  # of JSON, or of its fields
                raise AgentError(
                    f"{_shown(url)}: expected a chat completion, found {_cut(content, key)}"
                ) from None
            call.record(completion.model_dump())
        message = completion.choices[0].message
        # Those that the model requests are in the span; a list says that there are no others.
        extra = {key: value for key, value in (message.model_extra or {}).items() if value}
        disputed = {key: names for key, value in extra.items() if (names := (*calls_in(value, key),))}
        is_unknown = message.tool_calls is None or bool(disputed)
        return Reply(
            message.content,
            None if is_unknown else [],
            instead=tuple(disputed) or calls_instead(extra),
            to_record=_TO_RECORD,
        )

    return answer


def _named(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call of a tool: one without a name would be none to every gate."""
    if not any(isinstance(part, dict) and part.get("name") for part in call.values()):
        raise ValueError("expected the name of a function")
    return call


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    content: str | None = None
    tool_calls: list[Annotated[dict[str, Any], AfterValidator(_named)]] | None = None


class _Choice(BaseModel):
    model_config = ConfigDict(extra="allow")

    message: _Message


class _Completion(BaseModel):
    model_config = ConfigDict(extra="allow")

    choices: Annotated[list[_Choice], Field(min_length=1)]


async def _post(url: str, body: object, headers: Mapping[str, str] = {}) -> tuple[bool, str]:
    """Return whether a server answers with JSON, and its answer; connect again if that fails.

    Raises AgentError if it answers with anything but success, or with more than 10 MB; UnreachableError.
    """
    import httpx2

    shown, secret = _shown(url), headers.get("Authorization", "").removeprefix("Bearer ")
    async with httpx2.AsyncClient(verify=_tls(), timeout=None) as client:
        for pause_s in (*_PAUSES_S, None):
            try:
                # Another encoding than gzip may unpack a few bytes to gigabytes at once.
                sent = {"Accept-Encoding": "gzip", **headers, **_context()}
                async with client.stream("POST", url, json=body, headers=sent) as answer:
                    content = await _content(answer, shown)
                break
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if pause_s is None:
                    raise UnreachableError(f"{shown}: cannot be reached: {error}") from error
                await asyncio.sleep(pause_s)
            except httpx2.HTTPError as error:
                raise AgentError(f"{shown}: {type(error).__name__}: {error}") from error
    if not answer.is_success:
        raise AgentError(f"{shown}: answered {answer.status_code}: {_cut(content, secret)}")
    return "json" in answer.headers.get("content-type", "").lower(), content


async def _content(answer: httpx2.Response, shown: str) -> str:
    """Return the text of an answer, which is read no further than its limit."""
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise AgentError(f"{shown}: answered in the encoding {encoding[:40]!r}; expected gzip or none")
    content = bytearray()
    async for chunk in answer.aiter_bytes():
        content += chunk
        if len(content) > _MAX_BYTES:
            raise AgentError(f"{shown}: answered with more than {_MAX_BYTES:,} bytes")
    try:
        return content.decode(answer.charset_encoding or "utf-8", "replace")
    except (LookupError, UnicodeError):  # a charset that Python does not have, or that is none of a text
        return content.decode("utf-8", "replace")


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
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of its brackets, or of its port
        usable = False
    if not usable:
        raise InputError(f"{_shown(url)}: expected a URL with http or https")


def _shown(url: str) -> str:
    """Return a URL as messages show it: without a user, a password and a query, which may be secrets."""
    before, slashes, rest = url.partition("?")[0].partition("#")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{before}{slashes}{host.rpartition('@')[2]}{slash}{path}"


def _cut(text: str, secret: str = "") -> str:
    """Return the beginning of what a server answered, without a key that it repeats."""
    text = text.replace(secret, "…") if secret else text
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def template_of(body: str) -> Any:
    """Return the template that a text is. Raises InputError for one that is not JSON or has no `{text}`."""
    try:
        template = parse_written(body)
    except json.JSONDecodeError as error:
        raise InputError(f'http_body: expected JSON, such as {{"q": "{{text}}"}}; {refusal(error)}') from None
    if "{text}" not in body:
        raise InputError("http_body: expected {text} in it, where the user's message goes")
    return template


def filled(body: str, values: Mapping[str, Any]) -> Any:
    """Return a template with values in place of their names; a name alone becomes the value itself."""

    def fill(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: fill(item) for key, item in part.items()}
        if isinstance(part, list):
            return list(map(fill, part))
        if not isinstance(part, str):
            return part
        if (alone := _PLACEHOLDER.fullmatch(part)) is not None:
            return values[alone[1]]
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), part)

    return fill(template_of(body))


def path_of(text: str) -> list[str | int]:
    """Return the steps of a path. Raises InputError for a text that is none."""
    if _PATH.fullmatch(text) is None:
        raise InputError(
            f"http_reply: expected a path such as $.data.reply or $.choices[0].text, found {text!r}"
        )
    return [key or int(number) for key, number in _STEP.findall(text)]


def at_path(value: Any, text: str) -> Any:
    """Return what an answer has at a path. Raises ValueError, with what is there, if it has nothing there."""
    before = "$"
    for step in path_of(text):
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                raise ValueError(f"expected {text}, found no item {step} at {before}")
            value, before = value[step], f"{before}[{step}]"
        else:
            if not isinstance(value, dict) or step not in value:
                there = ", ".join(map(dumps, list(value)[:_MAX_KEYS])) if isinstance(value, dict) else ""
                raise ValueError(
                    f"expected {text}, found no {dumps(step)} at {before}; it has {there or 'no keys'}"
                )
            value, before = value[step], f"{before}.{step}"
    return value
