"""The chunks of a streamed answer, put together to the response that the client would have returned whole.

Reads the chunks of OpenAI's chat completions, the events of OpenAI's Responses and of Anthropic's messages,
and Gemini's partial responses, as JSON values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spangrade.tracer._messages import Part


def whole(chunks: Sequence[Any]) -> Part:
    """Return the response that chunks make up. Raises TypeError if they are not of a known client."""
    parts: list[Part] = [chunk for chunk in chunks if isinstance(chunk, dict)]
    # Each event about a response of OpenAI's Responses has its state so far: the last one is complete.
    states: list[Part] = [part["response"] for part in parts if isinstance(part.get("response"), dict)]
    if states:
        return states[-1]
    for chunk in parts:
        if chunk.get("type") == "message_start" and isinstance(chunk.get("message"), dict):
            return _anthropic(chunk["message"], parts)
        if isinstance(chunk.get("choices"), list):
            return _openai_chat(parts)
        if not {"candidates", "usage_metadata", "usageMetadata"}.isdisjoint(chunk):
            return _gemini(parts)
    raise TypeError("the chunks are not those of an answer of OpenAI, Anthropic or Gemini")


def _openai_chat(chunks: Sequence[Part]) -> Part:
    choices: dict[int, Part] = {}
    result: Part = {}
    for chunk in chunks:
        result |= {key: chunk[key] for key in ("id", "model", "usage") if chunk.get(key)}
        for piece in chunk.get("choices") or ():
            choice = choices.setdefault(
                piece.get("index") or 0, {"message": {"role": "assistant"}, "calls": {}}
            )
            choice["finish_reason"] = piece.get("finish_reason") or choice.get("finish_reason")
            delta = piece.get("delta") or {}
            for key in ("content", "refusal"):
                if delta.get(key):
                    choice["message"][key] = choice["message"].get(key, "") + delta[key]
            for call in delta.get("tool_calls") or ():
                _add_to_call(choice["calls"], call)
    for choice in choices.values():
        choice["message"]["tool_calls"] = list(choice.pop("calls").values())
    return {**result, "choices": [choices[index] for index in sorted(choices)]}


def _add_to_call(calls: dict[int, Part], piece: Part) -> None:
    index = piece.get("index")
    if index is None:  # of a server that sends calls whole
        index = len(calls) if piece.get("id") else max(len(calls) - 1, 0)
    call = calls.setdefault(index, {"function": {"arguments": ""}})
    written, function = call["function"], piece.get("function") or {}
    call["id"] = piece.get("id") or call.get("id")
    written["name"] = function.get("name") or written.get("name")
    written["arguments"] += function.get("arguments") or ""


def _anthropic(message: Part, events: Sequence[Part]) -> Part:
    blocks: dict[int, Part] = {}
    result = {**message, "usage": {**(message.get("usage") or {})}}
    for event in events:
        kind, delta = event.get("type"), event.get("delta") or {}
        if kind == "content_block_start":
            blocks[event["index"]] = {**event["content_block"]}
        elif kind == "content_block_delta":
            _add_to_block(blocks[event["index"]], delta)
        elif kind == "message_delta":
            result["stop_reason"] = delta.get("stop_reason") or result.get("stop_reason")
            counts = event.get("usage") or {}
            result["usage"] |= {name: count for name, count in counts.items() if count is not None}
    return {**result, "content": [blocks[index] for index in sorted(blocks)]}


def _add_to_block(block: Part, delta: Part) -> None:
    for name in ("text", "thinking"):
        if name in delta:
            block[name] = (block.get(name) or "") + delta[name]
    if delta.get("partial_json"):
        written = block["input"] if isinstance(block.get("input"), str) else ""
        block["input"] = written + delta["partial_json"]


def _gemini(chunks: Sequence[Part]) -> Part:
    candidates: dict[int, Part] = {}
    result: Part = {}
    for chunk in chunks:
        result |= {key: value for key, value in chunk.items() if value is not None and key != "candidates"}
        for piece in chunk.get("candidates") or ():
            candidate = candidates.setdefault(
                piece.get("index") or 0, {"content": {"role": "model", "parts": []}}
            )
            candidate |= {
                key: value for key, value in piece.items() if value is not None and key != "content"
            }
            _add_parts(candidate["content"]["parts"], (piece.get("content") or {}).get("parts") or ())
    return {**result, "candidates": [candidates[index] for index in sorted(candidates)]}


def _add_parts(parts: list[Part], new: Sequence[Part]) -> None:
    """Add parts, a piece of a text to the text before it."""
    for part in new:
        last = parts[-1] if parts else {}
        is_text = isinstance(part.get("text"), str) and isinstance(last.get("text"), str)
        if is_text and bool(part.get("thought")) == bool(last.get("thought")):
            parts[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            parts.append(part)
