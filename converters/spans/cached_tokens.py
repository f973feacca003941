"""Whether the input of a model call includes the tokens that were read from a cache, or written to one.

It is a property of the provider's API and of who wrote the span: most instrumentations count as the
conventions do, which include them, whatever the provider does; others write down what the provider counts.
The total alone tells nothing: Bedrock's is without what was cached, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

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
