"""Which spans look like an agent's: one that no dialect understands must not go unnoticed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans.values import text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

# The scopes of libraries that record nothing but agents and models, of which no dialect reads all spans.
_SCOPES = frozenset(
    {
        "autogen-core",
        "com.anthropic.claude_code.tracing",
        "crewAI",
        "crewai.telemetry",
        "genkit",
        "genkit-tracer",
        "haystack",
        "langsmith",
        "smolagents",
    }
)
_SCOPE_PREFIXES = (
    "@mastra/",
    "@traceloop/",
    "langfuse",
    "openinference.",
    "opentelemetry.instrumentation.genai.",
)
_PREFIXES = (
    "ag2.",
    "agno.",
    "ai.",
    "claude_code.",
    "crew_",
    "gcp.vertex.agent.",
    "gen_ai.",
    "genkit:",
    "haystack.agent.",
    "haystack.tool.",
    "langchain.",
    "langfuse.",
    "langgraph.",
    "langsmith.",
    "lk.",
    "llm.",
    "mastra.",
    "mlflow.",
    "openinference.",
    "spring.ai.",
    "traceloop.",
)
# What an attribute's name has in it if it holds what an agent, a model or a tool got or gave.
_CONTENT = re.compile(r"arg|completion|input|message|model|output|prompt|response|result|token|usage")
# Names under which a conversation's context is put on every span of it, also on those of a web server.
_CONTEXT = (
    "ai.settings.context.",
    "ai.telemetry.",
    "langfuse.trace.",
    "langsmith.metadata.",
    "langsmith.trace.",
    "mlflow.trace",
    "traceloop.association.",
)
# Operations of the conventions that are not steps of a session.
OTHER_OPERATIONS = frozenset(
    {
        "create_agent",
        "create_memory",
        "create_memory_store",
        "delete_memory",
        "delete_memory_store",
        "embeddings",
        "evaluate",
        "image_generation",
        "moderation",
        "rerank",
        "retrieval",
        "search_memory",
        "speech_to_text",
        "text_to_speech",
        "update_memory",
        "upsert_memory",
    }
)


def is_other_operation(attributes: Mapping[str, Any]) -> bool:
    """Return whether attributes name an operation that is not a step of a session, or a tool's protocol."""
    return text(attributes.get(semconv.OPERATION_NAME)) in OTHER_OPERATIONS or "mcp.method.name" in attributes


def looks_like_an_agents(span: Span) -> bool:
    """Return whether a span has content, and the scope or an attribute of an agent's instrumentation.

    False for one whose operation is known not to be a step of a session, and for the protocols of tools.
    """
    attributes = span.attributes
    if is_other_operation(attributes):
        return False
    scope = span.scope_name
    if scope is not None and (scope in _SCOPES or scope.startswith(_SCOPE_PREFIXES)):
        return any(map(_CONTENT.search, attributes))
    return any(
        key.startswith(_PREFIXES) and not key.startswith(_CONTEXT) and _CONTENT.search(key) is not None
        for key in attributes
    )
