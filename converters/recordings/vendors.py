"""Conversations inside what a vendor's API or a dump hands out: LangGraph's threads, OpenAI's Responses.

A thread of LangGraph, its state or a checkpoint holds messages among its values; the other values are the
state variables. A response of OpenAI has the items of one answer and not what was asked; a list of items is
a conversation, the newest first unless it was asked for otherwise.

https://docs.langchain.com/langsmith/server-api-ref
https://platform.openai.com/docs/api-reference/conversations/list-items
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.messages import is_of_user, message_of, plain_message
from spangrade.converters.spans.values import first_identity, objects
from spangrade.tracer.otlp.common import MalformedError

_VALUES = ("values", "channel_values")
_PARTIAL = "the list of items has more pages"


def thread(document: Mapping[str, Any]) -> dict[str, Any] | None:
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


def newest(threads: Sequence[Any]) -> list[int]:
    """Return the places of conversations in a list, of several states of one thread that with the most."""
    most: dict[Any, int] = {}
    for place, one in enumerate(threads):
        known = one.get("thread_id") if isinstance(one, dict) else None
        key = place if known is None else known
        if key not in most or len(one["messages"]) > len(threads[most[key]]["messages"]):
            most[key] = place
    return sorted(most.values())


def response(document: Mapping[str, Any]) -> dict[str, Any] | None:
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


def items(document: Mapping[str, Any]) -> dict[str, Any] | None:
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
