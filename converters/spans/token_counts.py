"""Counts of tokens: the name of each, by instrumentation, and whether cached tokens are in the input.

One table has the names by quantity. A name is compared by its words: `llm.usage.promptTokens` ends with the
words of `input_tokens`. The longest ending decides, so that `reasoning_output_tokens` is not an output, and a
further word before it makes it another quantity: `non_cached_input_tokens`, `total_input_tokens` and
`audio_input_tokens` are none of these.

Whether the input includes the tokens that were read from a cache, or written to one, is a property of the
provider's API and of who wrote the span: most instrumentations count as the conventions do, which include
them, whatever the provider does; others write down what the provider counts. The total alone tells nothing:
Bedrock's is without what was cached, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal

from spangrade.converters.spans.values import count
from spangrade.tracer import semconv

Place = Literal["inside", "beside"]

# Providers whose API counts cached tokens apart from the input; in all others these are a part of it.
_BESIDE = re.compile(r"anthropic|bedrock|claude")
_INSIDE = re.compile(
    r"openai|azure|gpt-|^o[134](?:-|$)|gemini|google|^gcp\b|deepseek|x_?ai\b|grok|groq|mistral|perplexity|cohere|"
    r"command-|moonshot|kimi|qwen|llama|ollama|fireworks|together|cerebras"
)
# The beginnings of the scopes of those who write what Bedrock counts, and the ids of its models.
_AS_BEDROCK = "opentelemetry.instrumentation.botocore"
_ALSO_BEDROCK, _OF_BEDROCK = "strands", re.compile(r"^(?:[a-z]+\.)?(?:anthropic|amazon|meta|mistral)\.")
# Those who write what the provider counts, whichever it is.
_AS_PROVIDER = ("langfuse", "mlflow")
# The beginnings of the scopes of those that count as the conventions do, also for the providers that do not.
_AS_CONVENTIONS = (
    "@mastra/",
    "@traceloop/",
    "agent_framework",
    "ai",
    "braintrust",
    "com.anthropic.",
    "gcp.vertex.agent",
    "gen_ai",
    "litellm",
    "openinference.",
    "openlit",
    "opentelemetry.instrumentation.",
    "pydantic-ai",
    "spangrade",
    "strands",
)
# The name by which the conventions ask for an input that includes them.
_OF_CONVENTIONS = frozenset({semconv.CACHE_READ_TOKENS, semconv.CACHE_WRITE_TOKENS})
_IN, _OUT = ("input", "prompt"), ("output", "completion")
_ENDINGS: Mapping[str, tuple[str, ...]] = {
    "input_tokens": (
        *(f"{word} tokens" for word in _IN),
        *(f"{word} token" for word in _IN),
        *(f"{place} {word}" for place in ("tokens", "tokens count", "token count") for word in (*_IN, "in")),
        *(f"{place} {word}" for place in ("usage", "token usage", "tokens usage") for word in _IN),
        *(f"{word} token count" for word in _IN),
    ),
    "output_tokens": (
        *(f"{word} tokens" for word in _OUT),
        *(f"{word} token" for word in _OUT),
        *(
            f"{place} {word}"
            for place in ("tokens", "tokens count", "token count")
            for word in (*_OUT, "out")
        ),
        *(f"{place} {word}" for place in ("usage", "token usage", "tokens usage") for word in _OUT),
        *(f"{word} token count" for word in _OUT),
    ),
    "cached_input_tokens": (
        "cached tokens",
        "cache read tokens",
        *(f"{kind} {word} tokens" for kind in ("cached", "cache read") for word in _IN),
        *(f"{word} cached tokens" for word in _IN),
        *(f"{word} tokens cached" for word in _IN),
    ),
    "reasoning_tokens": (
        *(f"{word} tokens" for word in ("reasoning", "thinking", "thoughts")),
        *(f"{word} {out} tokens" for word in ("reasoning", "thinking") for out in _OUT),
        *(f"{out} reasoning tokens" for out in _OUT),
    ),
    "cache_write_tokens": (
        *(f"cache {word} tokens" for word in ("write", "creation")),
        *(f"cache {word} input tokens" for word in ("write", "creation")),
    ),
    "total_tokens": ("total tokens", "tokens total", "token count total", "usage total", "total token count"),
}
_QUANTITIES = {tuple(ending.split()): field for field, endings in _ENDINGS.items() for ending in endings}
_LONGEST = max(map(len, _QUANTITIES))
# Words that may be joined to a quantity by an underscore, and leave it what it is. Without dots, all before
# it is a prefix: of these words none may be.
_NEUTRAL = frozenset({"ai", "call", "chat", "genai", "llm", "model", "num", "request", "response", "usage"})
_OTHER = frozenset(
    {
        *("non", "no", "not", "un", "uncached", "max", "min", "limit", "budget", "remaining", "estimated"),
        *("reasoning", "thinking", "cache", "cached", "read", "write", "creation", "audio", "image", "text"),
        *("video", "total", "cumulative", "aggregated", "average", "avg", "accepted", "rejected", "tool"),
        *("prediction", "saved", "session", "lifetime"),
    }
)
_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)
def _quantity(name: str) -> tuple[str, int] | None:
    """Return the quantity that a name is of, and how many characters are before it; None if of none."""
    plain = _UPPER.sub("_", name).lower().replace("-", "_")
    words = re.findall(r"[^._]+", plain)
    for length in range(min(_LONGEST, len(words)), 0, -1):
        field = _QUANTITIES.get(tuple(words[-length:]))
        if field is None:
            continue
        ending = re.search(r"[._]?".join(map(re.escape, words[-length:])) + "$", plain)
        before = plain[: ending.start()] if ending else ""
        word = words[-length - 1] if len(words) > length else ""
        segment = before.rpartition(".")[2].strip("_")
        joined = segment.split("_") if segment and "." in before else []
        if word in _OTHER or not _NEUTRAL.issuperset(joined):
            return None
        return field, len(before)
    return None


def quantities(attributes: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of tokens among attributes, by the field of an observation.

    Of the names for one quantity the one with the shortest remainder counts; where several are as short and
    differ, it is unknown.
    """
    found: dict[str, tuple[int, set[int]]] = {}
    for name in named(attributes):
        known = _quantity(name)
        number = count(attributes[name])
        if known is None or number is None:
            continue
        field, remainder = known
        shortest, numbers = found.get(field, (remainder, set()))
        if remainder < shortest:
            shortest, numbers = remainder, set()
        if remainder == shortest:
            numbers.add(number)
        found[field] = shortest, numbers
    return {field: numbers.pop() for field, (_, numbers) in found.items() if len(numbers) == 1}


def named(names: Iterable[str]) -> list[str]:
    """Return the names that are of a quantity."""
    return [name for name in names if _quantity(name) is not None]


def are_plausible(counts: Mapping[str, int]) -> bool:
    """Return whether counts can be those of one call, as far as their names tell.

    A prompt is never read from a cache as a whole, so that a cached input that equals the input is one value
    under two names; parts are not above the total that holds them. More cached tokens than input are
    plausible: they were counted beside it.
    """
    inputs, outputs, total = (counts.get(f"{name}_tokens") for name in ("input", "output", "total"))
    if inputs and counts.get("cached_input_tokens") == inputs:
        return False
    if outputs is not None and counts.get("reasoning_tokens", 0) > outputs and total is None:
        return False
    return total is None or (inputs or 0) + (outputs or 0) <= total


def of_provider(*names: str | None) -> Place | None:
    """Return where a provider counts cached tokens, given its name and its model's; None if unknown."""
    known = [name.lower() for name in names if name]
    if any(_BESIDE.search(name) for name in known):
        return "beside"
    return "inside" if any(_INSIDE.search(name) for name in known) else None


def of_span(scope: str | None, attributes: Mapping[str, Any], *names: str | None) -> Place | None:
    """Return where a span counts cached tokens, given its scope, and its provider's and model's names.

    None if neither who wrote it nor the provider tells.
    """
    writer = scope or ""
    is_bedrock = any(name and _OF_BEDROCK.match(name) for name in names)
    if writer.startswith(_AS_BEDROCK) or (writer.startswith(_ALSO_BEDROCK) and is_bedrock):
        return "beside"
    if writer.startswith(_AS_PROVIDER):
        return of_provider(*names)
    if writer.startswith(_AS_CONVENTIONS) or not _OF_CONVENTIONS.isdisjoint(attributes):
        return "inside"
    return "inside" if of_provider(*names) == "inside" else None


def placed(
    scope: str | None, attributes: Mapping[str, Any], counts: Mapping[str, Any], *names: str | None
) -> dict[str, Any]:
    """Return the changed fields of a model call: the input with the tokens counted beside it.

    See `of_span`; `counts` are the call's, by the field of an observation.
    """
    place, inputs = of_span(scope, attributes, *names), counts.get("input_tokens")
    if place is None:
        return {"cached_unplaced": True}
    if place == "inside" or inputs is None:
        return {}
    cached = (counts.get("cached_input_tokens") or 0) + (counts.get("cache_write_tokens") or 0)
    return {"input_tokens": inputs + cached}
