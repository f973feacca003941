"""Lists that attributes hold one value at a time: `llm.input_messages.0.message.role` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans.values import parse_json

_MAX_DIGITS = 9
_OF_CALLS = {
    "tool_call.id": "id",
    "tool_call.function.name": "name",
    "tool_call.function.arguments": "arguments",
}


def numbered(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the items of the list at `prefix` (which ends with a dot), in the order of their numbers.

    An item has its values under the rest of the attribute's name, which may hold further lists.
    """
    items: dict[int, dict[str, Any]] = {}
    start = len(prefix)
    for key, value in attributes.items():
        if key.startswith(prefix):
            number, _, rest = key[start:].partition(".")
            if number.isdecimal() and number.isascii() and len(number) <= _MAX_DIGITS:
                items.setdefault(int(number), {})[rest] = value
    return [items[number] for number in sorted(items)]


def messages(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the messages that OpenInference flattens at `prefix`, in the shape of the providers' APIs."""
    return [_message(item) for item in numbered(attributes, prefix)]


def plain_message(item: Mapping[str, Any], role: str | None = None) -> dict[str, Any]:
    """Return a message that is flattened without `message.` in its names (Traceloop), with a role."""
    content = parse_json(item.get("content"))
    return {
        **item,
        "role": role or item.get("role"),
        "content": content if isinstance(content, list) else item.get("content"),
        "tool_calls": [{"type": "function", **call} for call in numbered(item, "tool_calls.")],
    }


def any_messages(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the messages that are flattened at `prefix`, in either form."""
    return [
        _message(item) if any(key.startswith("message.") for key in item) else plain_message(item)
        for item in numbered(attributes, prefix)
    ]


def _message(item: Mapping[str, Any]) -> dict[str, Any]:
    parts = [
        {"type": part.get("message_content.type", "text"), "text": part.get("message_content.text")}
        for part in numbered(item, "message.contents.")
    ]
    calls = [
        {"type": "function", **{short: call[key] for key, short in _OF_CALLS.items() if key in call}}
        for call in numbered(item, "message.tool_calls.")
    ]
    call_id = item.get("message.tool_call_id")
    return {
        "role": "tool" if call_id else item.get("message.role"),  # some give a result the role user
        "content": parts or item.get("message.content"),
        "tool_calls": calls,
        "tool_call_id": call_id,
        "name": item.get("message.name"),
    }
