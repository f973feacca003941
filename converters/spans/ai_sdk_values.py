"""The messages of Vercel's AI SDK, which other TypeScript frameworks use too.

A message's content is a text or parts: `{"type": "tool-call", "toolCallId", "toolName", "input"}` and
`{"type": "tool-result", "toolCallId", "toolName", "output": {"type": "json", "value"}}`. Version 4 has `args`
for `input`, and `result` for `output`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans.values import objects, parse_json, text

# What a result is wrapped in: its type, and its value.
_OUTPUTS = frozenset({"content", "error-json", "error-text", "execution-denied", "json", "text"})


def messages(value: Any) -> list[dict[str, Any]]:
    """Return messages, or a JSON text of them, in the shape of the providers' APIs."""
    return [{**message, "content": _content(message)} for message in objects(parse_json(value))]


def answer(written: Any, tool_calls: Any) -> list[dict[str, Any]]:
    """Return the messages of a model's answer: a text, and a list of tool calls or a JSON text of it."""
    calls = [_call(part) for part in objects(parse_json(tool_calls))]
    texts = [{"type": "text", "text": written}] if text(written) else []
    return [{"role": "assistant", "content": [*texts, *calls]}] if texts or calls else []


def _content(message: Mapping[str, Any]) -> Any:
    content = message.get("content")
    return [_part(part) for part in content] if isinstance(content, list) else content


def _part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "tool-call":
        return _call(part)
    if kind == "tool-result":
        output = part.get("output", part.get("result"))
        if isinstance(output, dict) and text(output.get("type")) in _OUTPUTS and "value" in output:
            output = output["value"]
        names = {"tool_use_id": part.get("toolCallId"), "name": part.get("toolName")}
        return {"type": "tool_result", **names, "content": output}
    return part


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    arguments = part.get("input", part.get("args"))
    names = {"id": part.get("toolCallId"), "name": part.get("toolName")}
    return {"type": "tool_use", **names, "input": arguments}
