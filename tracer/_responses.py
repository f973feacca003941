"""A model client's response, as the GenAI conventions record it: answer, model, tokens.

Reads OpenAI's chat completions and Responses, Anthropic's messages and google-genai's
`GenerateContentResponse`, as objects or dictionaries, without importing a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spangrade.tracer._messages import Part, messages, plain
from spangrade.tracer._streams import whole


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
        document = whole([plain(chunk) for chunk in response])
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
