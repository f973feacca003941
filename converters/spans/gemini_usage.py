"""Gemini's token counts (`usage_metadata`) as the GenAI conventions count them.

Gemini counts the prompts of built-in tools apart from the prompt, and thoughts apart from the candidates;
the conventions include both. Its prompt already includes the cached tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from spangrade.converters.spans.values import count


class GeminiUsage(NamedTuple):
    """The tokens of one model call; None where Gemini gives no count."""

    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    reasoning_tokens: int | None


def gemini_usage(usage: Mapping[str, Any]) -> GeminiUsage:
    """Return the tokens of a `usage_metadata` object, whose keys are in snake_case or camelCase."""
    prompt = count(usage.get("prompt_token_count", usage.get("promptTokenCount")))
    tool_prompts = count(usage.get("tool_use_prompt_token_count", usage.get("toolUsePromptTokenCount")))
    candidates = count(usage.get("candidates_token_count", usage.get("candidatesTokenCount")))
    thoughts = count(usage.get("thoughts_token_count", usage.get("thoughtsTokenCount")))
    cached = count(usage.get("cached_content_token_count", usage.get("cachedContentTokenCount")))
    return GeminiUsage(
        input_tokens=None if prompt is None else prompt + (tool_prompts or 0),
        output_tokens=None
        if candidates is None and thoughts is None
        else (candidates or 0) + (thoughts or 0),
        cached_input_tokens=cached,
        reasoning_tokens=thoughts,
    )
