"""Chat messages as people keep them: a conversation, a list of them, or a line for each.

A conversation is an object with `messages` (OpenAI's and Anthropic's forms, OpenAI's Responses), or with
`contents` (Gemini's), or a list of such messages. Beside them may stand an `id`, the `question_id` of the
golden question that it answers, the `state` at the end, `scores`, `labels`, `metadata`, `tools`, a `system`
text and a `stop_word`, with which the user hung up.

Conversations are also inside what a vendor's API or a dump hands out. A thread of LangGraph, its state or a
checkpoint holds messages among its values; the other values are the state variables. A response of OpenAI has
the items of one answer and not what was asked; a list of items is a conversation, the newest first unless it
was asked for otherwise.

https://platform.openai.com/docs/api-reference/chat/create
https://platform.openai.com/docs/api-reference/conversations/list-items
https://docs.anthropic.com/en/api/messages
https://ai.google.dev/api/generate-content
https://docs.langchain.com/langsmith/server-api-ref
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from spangrade.converters.recordings import plain
from spangrade.converters.recordings.conversations import (
    STOP_WORDS,
    RecordedConversation,
    Said,
    evaluations,
    made_id,
    spans_of,
    tags_of,
)
from spangrade.converters.spans.messages import (
    Message,
    is_of_langchain,
    is_of_user,
    message_of,
    plain_message,
)
from spangrade.converters.spans.parts import is_item
from spangrade.converters.spans.provider_values import tokens
from spangrade.converters.spans.values import either, first_identity, objects
from spangrade.tracer import semconv
from spangrade.tracer.otlp.common import MalformedError
from spangrade.tracer.span import Attributes, Problem, Span

_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "function", "model", "human", "ai"})
_LISTS = ("messages", "contents")
_CONTENT = frozenset({"content", "parts", "tool_calls", "function_call"})
_IDS = ("id", "session_id", "conversation_id", "thread_id")
_TOKENS = {
    "input_tokens": semconv.INPUT_TOKENS,
    "output_tokens": semconv.OUTPUT_TOKENS,
    "cached_input_tokens": semconv.CACHE_READ_TOKENS,
    "cache_write_tokens": semconv.CACHE_WRITE_TOKENS,
    "reasoning_tokens": semconv.REASONING_TOKENS,
}
_TIMES = ("timestamp", "created_at", "time")
_VALUES = ("values", "channel_values")
_PARTIAL = "the list of items has more pages"


def read(document: Any) -> Iterator[Span | Problem] | None:
    """Return conversations as spans, or None if the document is something else."""
    if isinstance(document, list) and document:
        if _is_message(document[0]):
            return read_all([({"messages": document}, "")], _conversation)
        if _is_one(document[0]):
            numbered = [(one, f"[{number}]") for number, one in enumerate(document)]
            threads = [langgraph_thread(one) if isinstance(one, dict) else None for one in document]
            if None not in threads:
                numbered = [numbered[place] for place in newest_states(threads)]
            return read_all(numbered, _conversation)
    if _is_one(document):
        return read_all([(document, "")], _conversation)
    return None


read.__dict__["gathers"] = lambda document: (  # see `Reader`
    _is_message(document) or (isinstance(document, dict) and langgraph_thread(document) is not None)
)


def _is_one(document: Any) -> bool:
    """Return whether a document is a conversation, or holds one as a vendor hands it out."""
    if not isinstance(document, dict):
        return False
    if _has_messages(document) or _has_messages(langgraph_thread(document)):
        return True
    if openai_response(document) is not None:
        return True
    with suppress(MalformedError):
        return openai_items(document) is not None
    return True


def read_all(documents: Sequence[tuple[Any, str]], conversation: Any) -> Iterator[Span | Problem]:
    """Yield the spans of conversations, given each with its place; a Problem for one that cannot be read."""
    for one, where in documents:
        try:
            spans = list(spans_of(conversation(one)))
        except MalformedError as error:
            yield Problem(where, str(error))
        else:
            yield from spans


def said(messages: Any) -> Iterator[Said]:
    """Yield the content of a list of messages. Raises MalformedError if an item is not a message."""
    for number, written in enumerate(plain.objects(messages, "messages"), 1):
        raw = written if "role" in written else plain_message(written) or written
        read_one = message_of(raw)
        if read_one is None and isinstance(raw.get("type"), str) and _CONTENT.isdisjoint(raw):
            continue  # an item of OpenAI's Responses beside messages, such as a list of tools
        if read_one is None or read_one.role is None:
            raise MalformedError(f"message {number}: expected a role and a content")
        time = next((raw[key] for key in _TIMES if raw.get(key) is not None), None)
        yield Said(
            _with_marks(read_one),
            None if time is None else plain.time_ns(time, f"the time of message {number}"),
            None,
            of_model(raw) if read_one.role == "assistant" else {},
        )


def of_model(raw: Mapping[str, Any]) -> Attributes:
    """Return the model and the tokens that a message of a model has beside its content."""
    usage = either(raw, "usage_metadata") or raw.get("usage")
    counts = tokens(usage) if isinstance(usage, dict) else {}
    told = raw.get("response_metadata")  # LangChain's
    named = (told.get("model_name") or told.get("model")) if isinstance(told, dict) else None
    model = either(raw, "model_version") or raw.get("model") or named
    return {
        semconv.RESPONSE_MODEL: model if isinstance(model, str) else None,
        **{name: counts.get(key) for key, name in _TOKENS.items()},
    }


def session_id(document: Mapping[str, Any], messages: Any) -> str:
    """Return the id of a conversation, or the digest of its messages where it has none."""
    known = first_identity(either(document, key) for key in _IDS)
    return known or made_id("messages", messages)


def _conversation(document: Any) -> RecordedConversation:
    if isinstance(document, dict) and not _has_messages(document):
        readers = (langgraph_thread, openai_response, openai_items)
        document = next((found for reader in readers if (found := reader(document)) is not None), document)
    if not isinstance(document, dict) or not any(isinstance(document.get(key), list) for key in _LISTS):
        raise MalformedError("not a conversation; expected an object with `messages`")
    messages = next(document[key] for key in _LISTS if isinstance(document.get(key), list))
    question, state, stop = (either(document, key) for key in ("question_id", "state", "stop_word"))
    if not isinstance(state, dict | None):
        raise MalformedError("state: expected a JSON object of variables")
    system = _system(either(document, "system_instruction") or document.get("system"))
    return RecordedConversation(
        session_id(document, messages),
        [*system, *said(messages)],
        None if question is None else str(question),
        state,
        evaluations(document.get("scores"), document.get("labels")),
        tags_of(document.get("metadata")),
        document.get("tools") or None,
        (stop,) if isinstance(stop, str) else STOP_WORDS,
        document.get("unfinished"),
    )


def _system(value: Any) -> list[Said]:
    if value is None or value == "":
        return []
    content = value.get("parts", value.get("content")) if isinstance(value, dict) else value
    read_one = message_of({"role": "system", "content": content})
    return [] if read_one is None or not read_one.text else [Said(read_one)]


def _with_marks(message: Message) -> Message:
    """Return a message whose results that begin with `Error` are failures, where nothing marks them."""
    results = tuple(
        one._replace(failed=True)
        if one.failed is None and (one.result or "").startswith(('"Error', "Error"))
        else one
        for one in message.tool_results
    )
    return message._replace(tool_results=results)


def _has_messages(document: Any) -> bool:
    return isinstance(document, dict) and any(
        isinstance(document.get(key), list) and bool(document[key]) and _is_message(document[key][0])
        for key in _LISTS
    )


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(role := value.get("role"), str):
        return role in _ROLES and not _CONTENT.isdisjoint(value)
    if is_item(value):
        return not {"call_id", "content", "id"}.isdisjoint(value)
    if isinstance(value.get("kwargs"), dict) or is_of_langchain(value):
        return plain_message(value) is not None
    return value.get("type") in ("message", "reasoning") and "content" in value


def langgraph_thread(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the conversation in a thread, a state or a checkpoint of LangGraph; None for anything else."""
    values = next((document[key] for key in _VALUES if isinstance(document.get(key), dict)), None)
    if values is None or not isinstance(values.get("messages"), list):
        return None
    config = document.get("config")
    configured = config.get("configurable") if isinstance(config, dict) else None
    places = (document, configured, document.get("checkpoint"), document.get("metadata"))
    ids = (place.get("thread_id") for place in places if isinstance(place, dict))
    state = {key: value for key, value in values.items() if key != "messages"}
    return {"thread_id": first_identity(ids), "messages": values["messages"], "state": state or None}


def newest_states(threads: Sequence[Any]) -> list[int]:
    """Return the places of conversations in a list, of several states of one thread that with the most."""
    most: dict[Any, int] = {}
    for place, one in enumerate(threads):
        known = one.get("thread_id") if isinstance(one, dict) else None
        key = place if known is None else known
        if key not in most or len(one["messages"]) > len(threads[most[key]]["messages"]):
            most[key] = place
    return sorted(most.values())


def openai_response(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the conversation that a response of OpenAI's API is: one answer; None for anything else."""
    if document.get("object") != "response" or not isinstance(document.get("output"), list):
        return None
    parts: list[Any] = []
    for item in objects(document["output"]):
        content = item.get("content")
        parts += content if item.get("type") == "message" and isinstance(content, list) else [item]
    told = {key: document.get(key) for key in ("model", "usage", "created_at")}
    asked = document.get("instructions")
    return {
        "messages": [{"role": "assistant", "content": parts, **told}],
        "system": asked if isinstance(asked, str) else None,
        "tools": document.get("tools"),
    }


def openai_items(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the conversation that a list of items of OpenAI's API is; None for anything else.

    Raises MalformedError if the order of the items cannot be known.
    """
    listed = document.get("data")
    if document.get("object") != "list" or not isinstance(listed, list) or not listed:
        return None
    if not all(isinstance(one, dict) and isinstance(one.get("type"), str) for one in listed):
        return None
    if all(message_of(plain_message(one) or one) is None for one in listed):
        return None
    unfinished = _PARTIAL if document.get("has_more") is True else None
    return {"messages": _in_order(listed), "unfinished": unfinished}


def _in_order(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return items, the oldest first: a call comes before its result, and a user's message at the begin."""
    calls = {one["call_id"]: place for place, one in enumerate(listed) if _is_of_call(one, "_call")}
    for place, one in enumerate(listed):
        if _is_of_call(one, "_call_output") and one["call_id"] in calls:
            return listed if calls[one["call_id"]] < place else listed[::-1]
    ends = [is_of_user(listed[end]) or listed[end].get("role") in ("system", "developer") for end in (0, -1)]
    if ends[0] == ends[1]:
        raise MalformedError("the order of the items cannot be known; ask for them with order=asc")
    return listed if ends[0] else listed[::-1]


def _is_of_call(item: Mapping[str, Any], end: str) -> bool:
    return isinstance(item.get("call_id"), str) and item["type"].endswith(end)
