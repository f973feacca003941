"""A model client's response, as the GenAI conventions record it: answer, model, tokens.

Reads OpenAI's chat completions and Responses, Anthropic's messages and google-genai's
`GenerateContentResponse`, as objects or dictionaries, without importing a client. The chunks of a streamed
answer are put together first to the response that the client would have returned whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spangrade.tracer._messages import Part, messages, plain


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a call as the conventions count them; None where the client gives no count."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A model's response; each of `choices` is a message in the client's form and why it ended."""

    choices: tuple[tuple[Any, str | None], ...]
    model: str | None
    response_id: str | None
    tokens: Tokens

    @property
    def finish_reasons(self) -> list[str]:
        """Why each choice ended, in the client's words."""
        return [reason for _, reason in self.choices if reason is not None]

    @property
    def messages(self) -> list[Part]:
        """The choices as messages of the conventions."""
        return [
            message if reason is None else {**message, "finish_reason": reason}
            for choice, reason in self.choices
            for message in messages(choice, "assistant")
        ]


def read_response(response: object) -> Response:
    """Read a client's response, or the list of a stream's chunks.

    Raises TypeError if it is not one of those named above.
    """
    if isinstance(response, list | tuple):
        document = whole_response([plain(chunk) for chunk in response])
    else:
        document = plain(response)
    if isinstance(document, dict):
        if isinstance(document.get("choices"), list):
            return _openai_chat(document)
        if isinstance(document.get("output"), list):
            return _openai_responses(document)
        if isinstance(document.get("content"), list) and "usage" in document:
            return _anthropic(document)
        if not {"candidates", "usage_metadata", "usageMetadata"}.isdisjoint(document):
            return _gemini(document)
    raise TypeError(f"{type(response).__name__} is not a response of OpenAI, Anthropic or Gemini")


def _openai_chat(document: Part) -> Response:
    choices = tuple(
        (choice.get("message"), _text(choice.get("finish_reason")))
        for choice in _objects(document["choices"])
    )
    return _openai(document, choices, "prompt_tokens", "completion_tokens")


def _openai_responses(document: Part) -> Response:
    items = _objects(document["output"])
    # One answer in several items: its texts, then its calls.
    contents = [item.get("content") if item.get("type") == "message" else [item] for item in items]
    answer = [part for content in contents if isinstance(content, list) for part in content]
    incomplete = _object(document.get("incomplete_details")).get("reason")
    ended = _text(incomplete) or _text(document.get("status"))
    return _openai(document, ((answer, ended),), "input_tokens", "output_tokens")


def _openai(
    document: Part, choices: tuple[tuple[Any, str | None], ...], input_name: str, output_name: str
) -> Response:
    """Return a response of OpenAI, whose two APIs name the counts differently."""
    usage = _object(document.get("usage"))
    read, written = (_object(usage.get(f"{name}_details")) for name in (input_name, output_name))
    tokens = Tokens(
        _count(usage.get(input_name)),
        _count(usage.get(output_name)),
        _count(read.get("cached_tokens")),
        _count(read.get("cache_write_tokens")),
        _count(written.get("reasoning_tokens")),
    )
    return Response(choices, _text(document.get("model")), _text(document.get("id")), tokens)


def _anthropic(document: Part) -> Response:
    usage = _object(document.get("usage"))
    uncached, read, written = (
        _count(usage.get(name))
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    return Response(
        ((document["content"], _text(document.get("stop_reason"))),),
        _text(document.get("model")),
        _text(document.get("id")),
        Tokens(
            # Anthropic counts cached tokens apart; the conventions include them.
            None if uncached is None else uncached + (read or 0) + (written or 0),
            _count(usage.get("output_tokens")),
            read,
            written,
            _count(_object(usage.get("output_tokens_details")).get("thinking_tokens")),
        ),
    )


def _gemini(document: Part) -> Response:
    def either(record: Part, snake: str, camel: str) -> Any:
        return record.get(snake, record.get(camel))

    choices = tuple(
        (candidate.get("content"), _text(either(candidate, "finish_reason", "finishReason")))
        for candidate in _objects(document.get("candidates"))
    )
    return Response(
        choices,
        _text(either(document, "model_version", "modelVersion")),
        _text(either(document, "response_id", "responseId")),
        gemini_tokens(_object(either(document, "usage_metadata", "usageMetadata"))),
    )


def gemini_tokens(usage: Part) -> Tokens:
    """Return the tokens of Gemini's `usage_metadata`.

    Gemini counts the prompts of built-in tools apart from the prompt, and thoughts apart from the candidates;
    the conventions include both. `converters.spans.provider_values` has the same rule for spans.
    """
    prompt, tool_prompts, candidates, thoughts, cached = (
        _count(usage.get(snake, usage.get(camel)))
        for snake, camel in (
            ("prompt_token_count", "promptTokenCount"),
            ("tool_use_prompt_token_count", "toolUsePromptTokenCount"),
            ("candidates_token_count", "candidatesTokenCount"),
            ("thoughts_token_count", "thoughtsTokenCount"),
            ("cached_content_token_count", "cachedContentTokenCount"),
        )
    )
    return Tokens(
        input_tokens=None if prompt is None else prompt + (tool_prompts or 0),
        output_tokens=None
        if candidates is None and thoughts is None
        else (candidates or 0) + (thoughts or 0),
        cached_input_tokens=cached,
        reasoning_tokens=thoughts,
    )


def _object(value: Any) -> Part:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Part]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def whole_response(chunks: Sequence[Any]) -> Part:
    """Return the response that chunks make up. Raises TypeError if they are not of a known client."""
    parts: list[Part] = [chunk for chunk in chunks if isinstance(chunk, dict)]
    # Each event about a response of OpenAI's Responses has its state so far: the last one is complete.
    states: list[Part] = [part["response"] for part in parts if isinstance(part.get("response"), dict)]
    if states:
        return states[-1]
    for chunk in parts:
        if chunk.get("type") == "message_start" and isinstance(chunk.get("message"), dict):
            return _joined_anthropic(chunk["message"], parts)
        if isinstance(chunk.get("choices"), list):
            return _joined_openai(parts)
        if not {"candidates", "usage_metadata", "usageMetadata"}.isdisjoint(chunk):
            return _joined_gemini(parts)
    raise TypeError("the chunks are not those of an answer of OpenAI, Anthropic or Gemini")


def _joined_openai(chunks: Sequence[Part]) -> Part:
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


def _joined_anthropic(message: Part, events: Sequence[Part]) -> Part:
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


def _joined_gemini(chunks: Sequence[Part]) -> Part:
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
