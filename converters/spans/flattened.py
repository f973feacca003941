"""Lists that attributes spell out one value at a time: `llm.input_messages.0.message.role` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def numbered(a: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the members of the list at `prefix` (which ends with a dot), in the order of their numbers.

    Each has its values by what follows the number; that may spell out lists of its own.
    """
    found: dict[int, dict[str, Any]] = {}
    start = len(prefix)
    for key, value in a.items():
        if key.startswith(prefix):
            number, _, rest = key[start:].partition(".")
            if number.isdecimal() and number.isascii():
                found.setdefault(int(number), {})[rest] = value
    return [found[number] for number in sorted(found)]


def messages(a: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the messages that OpenInference spells out at `prefix`, in the shape of the providers' APIs."""
    return [_message(m) for m in numbered(a, prefix)]


def _message(m: Mapping[str, Any]) -> dict[str, Any]:
    parts = [
        {"type": part.get("message_content.type", "text"), "text": part.get("message_content.text")}
        for part in numbered(m, "message.contents.")
    ]
    calls = [
        {
            "type": "function",
            "id": call.get("tool_call.id"),
            "name": call.get("tool_call.function.name"),
            "arguments": call.get("tool_call.function.arguments"),
        }
        for call in numbered(m, "message.tool_calls.")
    ]
    call_id = m.get("message.tool_call_id")
    return {
        "role": "tool" if call_id else m.get("message.role"),  # a result has role user for some
        "content": parts or m.get("message.content"),
        "tool_calls": calls,
        "tool_call_id": call_id,
        "name": m.get("message.name"),
    }
