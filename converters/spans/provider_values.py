"""Requests, responses and usage of the providers' APIs, which several instrumentations record as they are.

OpenAI's Chat Completions and Responses, Anthropic's Messages, Gemini's `generateContent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans.messages import messages_in
from spangrade.converters.spans.observation import TokenCounts
from spangrade.converters.spans.values import count, either, first_of, json_object, known, parse_json
from spangrade.tracer import semconv

_USAGES = ("usage", "usageMetadata", "usage_metadata")
# What a provider's response has beside its usage.
_OF_RESPONSES = frozenset({"candidates", "choices", "content", "output"})


def exchange(inputs: Any, outputs: Any) -> dict[str, Any]:
    """Return the messages of a request and of its response under the conventions' names; None for none."""
    return {
        semconv.INPUT_MESSAGES: request_messages(inputs) or None,
        semconv.OUTPUT_MESSAGES: response_messages(outputs) or None,
    }


def request_messages(value: Any) -> list[dict[str, Any]]:
    """Return the messages of a request, wherever it has a place for them, or a text of the user."""
    return messages_in(parse_json(value), "user", texts=True)


def response_messages(value: Any) -> list[dict[str, Any]]:
    """Return the messages of a model's response: its choices, candidates or items, itself, or a text."""
    return messages_in(parse_json(value), "assistant", texts=True)


def usage_of(response: Any) -> Mapping[str, Any]:
    """Return the usage in a provider's response, empty for any other value."""
    if not isinstance(response, dict) or _OF_RESPONSES.isdisjoint(response):
        return {}
    return next((usage for name in _USAGES if (usage := json_object(response.get(name)))), {})


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
                "input_tokens": count(first_of(usage, ("prompt_tokens", "input_tokens", "inputTokens"))),
                "output_tokens": count(
                    first_of(usage, ("completion_tokens", "output_tokens", "outputTokens"))
                ),
                "cached_input_tokens": count(inputs.get("cached_tokens")),
                "reasoning_tokens": count(outputs.get("reasoning_tokens")),
            }
    return known(counts)


def gemini_usage(usage: Mapping[str, Any]) -> TokenCounts:
    """Return the tokens of Gemini's `usage_metadata`, as the conventions count them.

    Gemini counts the prompts of built-in tools apart from the prompt, and thoughts apart from the candidates;
    the conventions include both. Its prompt already includes the cached tokens.
    """
    prompt, tool_prompts, candidates, thoughts, cached = (
        count(either(usage, f"{name}_token_count"))
        for name in ("prompt", "tool_use_prompt", "candidates", "thoughts", "cached_content")
    )
    return TokenCounts(
        input_tokens=None if prompt is None else prompt + (tool_prompts or 0),
        output_tokens=None
        if candidates is None and thoughts is None
        else (candidates or 0) + (thoughts or 0),
        cached_input_tokens=cached,
        reasoning_tokens=thoughts,
    )


def _details(usage: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    return next((d for name in names if (d := json_object(usage.get(f"{name}_tokens_details")))), {})
