"""Requests, responses and usage of the providers' APIs, which several instrumentations record as they are.

OpenAI's Chat Completions and Responses, Anthropic's Messages, Gemini's `generateContent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans.gemini_usage import gemini_usage
from spangrade.converters.spans.values import count, json_object, objects, parse_json, text
from spangrade.tracer import semconv


def exchange(inputs: Any, outputs: Any) -> dict[str, Any]:
    """Return the messages of a request and of its response under the conventions' names; None for none."""
    return {
        semconv.INPUT_MESSAGES: request_messages(inputs) or None,
        semconv.OUTPUT_MESSAGES: response_messages(outputs) or None,
    }


def request_messages(value: Any, depth: int = 2) -> list[dict[str, Any]]:
    """Return the messages of a request: of its known key, a bare list of them, or a text of the user.

    The request may be in `depth` other objects (`{"kwargs": {"messages": […]}}`).
    """
    value = parse_json(value)
    if isinstance(value, dict):
        keys = ("messages", "input", "contents", "prompt", "kwargs", "request")
        value = parse_json(next((value[key] for key in keys if value.get(key)), None))
        if isinstance(value, dict):
            return [] if depth == 0 else request_messages(value, depth - 1)
    if isinstance(value, str):
        return [{"role": "user", "content": value}] if value else []
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):  # a batch of one
        value = value[0]
    return objects(value)


def response_messages(value: Any) -> list[dict[str, Any]]:
    """Return the messages of a model's response: its choices, candidates or items, or itself."""
    value = parse_json(value)
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}] if value else []
    if isinstance(value, list):
        return [message for item in value[:1_000] for message in response_messages_of(item)]
    return response_messages_of(value)


def response_messages_of(response: Any) -> list[dict[str, Any]]:
    """Return the messages of one response that is an object; none for any other value."""
    if not isinstance(response, dict):
        return []
    if choices := objects(response.get("choices")):
        return [{"role": "assistant", **json_object(choice.get("message"))} for choice in choices]
    if candidates := objects(response.get("candidates")):
        return [{"role": "assistant", **json_object(candidate.get("content"))} for candidate in candidates]
    if isinstance(response.get("output"), list):
        return [_item(item) for item in objects(response["output"])]
    if isinstance(response.get("message"), dict):  # a choice alone
        return [{"role": "assistant", **response["message"]}]
    if response.keys() & {"content", "parts", "tool_calls"}:
        return [{**response, "role": "assistant"}]
    return [_item(response)] if text(response.get("type")) in {"message", "function_call"} else []


def _item(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", **item} if item.get("type") == "message" else {**item}


def tokens(usage: Mapping[str, Any], *, of_provider: bool = True) -> dict[str, Any]:
    """Return the token counts that a provider's own usage has, as the conventions count them.

    One that is not `of_provider`, but has Anthropic's names for all providers, is returned as it is.
    """
    if not usage.keys().isdisjoint({"promptTokenCount", "prompt_token_count"}):
        counts: Mapping[str, int | None] = gemini_usage(usage)._asdict()
    else:
        read, written = (count(usage.get(f"cache_{name}_input_tokens")) for name in ("read", "creation"))
        if read is not None or written is not None:  # Anthropic's, where the input leaves out what was cached
            uncached = count(usage.get("input_tokens"))
            counts = {
                "input_tokens": uncached + (read or 0) + (written or 0)
                if uncached is not None and of_provider
                else uncached,
                "output_tokens": count(usage.get("output_tokens")),
                "cached_input_tokens": read,
                "cache_write_tokens": written,
            }
        else:
            inputs = _details(usage, "prompt", "input")
            outputs = _details(usage, "completion", "output")
            counts = {
                "input_tokens": count(usage.get("prompt_tokens", usage.get("input_tokens"))),
                "output_tokens": count(usage.get("completion_tokens", usage.get("output_tokens"))),
                "cached_input_tokens": count(inputs.get("cached_tokens")),
                "reasoning_tokens": count(outputs.get("reasoning_tokens")),
            }
    return {name: number for name, number in counts.items() if number is not None}


def _details(usage: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    return next((d for name in names if (d := json_object(usage.get(f"{name}_tokens_details")))), {})
