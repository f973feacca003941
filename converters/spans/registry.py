"""The dialects, in the order in which they are tried: the first that claims a span reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol, runtime_checkable

from spangrade.converters.spans.agent_spans import looks_like_an_agents
from spangrade.converters.spans.checked import checked
from spangrade.converters.spans.observation import Observation
from spangrade.tracer.canonical_json import json_value
from spangrade.tracer.plugins import plugins
from spangrade.tracer.span import LogRecord, Span

GROUP = "spangrade.dialects"
# Dialects of other packages come before these, in the order of their names. Vercel comes before
# OpenInference, whose processor adds to that SDK's own spans; OpenInference before Pydantic AI because its
# instrumentation adds to that framework's own spans; Traceloop before the OpenAI Agents SDK because its spans
# have the same scope.
ORDER = (
    "adk",
    "langchain",
    "logfire",
    "logfire-agents",
    "vercel",
    "litellm",
    "livekit",
    "mastra",
    "openinference",
    "pydantic-ai",
    "strands",
    "traceloop",
    "openai-agents",
    "autogen",
    "claude-code",
    "genkit",
    "haystack",
    "langfuse",
    "langsmith",
    "mlflow",
    "pipecat",
)
FALLBACK = "genai"
# The scope of the tracer's own spans, which follow the conventions: 1.4 µs per span to try no other dialect.
_TRACER = "spangrade.tracer"
_OURS = frozenset({*ORDER, FALLBACK})

# https://opentelemetry.io/docs/specs/otel/trace/tracestate-handling/: a threshold above 0 drops traces.
# The other two are the tracer's (tracer/sampling.py).
_SAMPLED = re.compile(r"(^|,)\s*(ot=([^,]*;)?th:0*[1-9a-f]|spangrade=partial)")
_SAMPLE_RATIO = re.compile(r"(?:^|,)\s*spangrade=conversation:(0\.\d+|[01]|[1-9](?:\.\d+)?e-\d+)\s*(?:,|$)")


@runtime_checkable
class Dialect(Protocol):
    """A module that reads the spans of one family of instrumentations, by these two functions."""

    def claims(self, span: Span, /) -> bool:
        """Return whether this dialect reads the span."""
        ...

    def read(self, span: Span, logs: Sequence[LogRecord], /) -> Observation:
        """Return what a span records, given the log records of the same trace id and span id."""
        ...


@cache
def dialects() -> Mapping[str, Dialect]:
    """Return the installed dialects by name, in the order in which they are tried.

    Those of other packages come first, by name; then spangrade's own in `ORDER`; `FALLBACK` claims the rest.
    Raises InputError if one cannot be loaded or is not a dialect, or if two have the same name.
    """
    found: dict[str, Dialect] = {}
    for plugin in plugins(GROUP):
        module = plugin.load()
        if not isinstance(module, Dialect):
            raise plugin.error("expected a module with the functions claims(span) and read(span, logs)")
        if plugin.name in found:
            raise plugin.error("another dialect has the same name")
        found[plugin.name] = module
    ours = [name for name in (*ORDER, FALLBACK) if name in found]
    return {name: found[name] for name in (*(name for name in found if name not in ours), *ours)}


def observe(spans: Iterable[Span], logs: Mapping[tuple[str, str], Sequence[LogRecord]]) -> list[Observation]:
    """Read spans, each with the logs recorded under its (trace id, span id).

    A span that a dialect fails to read is of kind "other", and `unreadable` gives the reason.
    """
    tried = tuple((name, dialect, name in _OURS) for name, dialect in dialects().items())
    for_the_tracers = tuple(entry for entry in tried if entry[0] == FALLBACK or not entry[2])
    observations = []
    for span in spans:
        name = FALLBACK
        try:
            for name, dialect, is_ours in for_the_tracers if span.scope_name == _TRACER else tried:
                if dialect.claims(span):
                    observation = dialect.read(span, logs.get((span.trace_id, span.span_id), ()))
                    if not is_ours:
                        observation = checked(observation, span)
                    if observation.kind == "other" and name == FALLBACK and looks_like_an_agents(span):
                        observation = observation._replace(not_understood=span.scope_name or "")
                    break
        except Exception as error:  # noqa: BLE001 (third-party code: the dialects of other packages)
            observation = _unreadable(span, name, error)
        observations.append(
            _with_sampling(observation, span.trace_state) if span.trace_state else observation
        )
    return observations


def _with_sampling(observation: Observation, trace_state: str) -> Observation:
    ratio = _SAMPLE_RATIO.search(trace_state)
    return observation._replace(
        sampled=_SAMPLED.search(trace_state) is not None, sample_ratio=float(ratio[1]) if ratio else None
    )


def _unreadable(span: Span, dialect: str, error: Exception) -> Observation:
    return Observation(
        "other",
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.start_ns,
        span.end_ns,
        unreadable=(dialect, error_line(error)),
    )


def error_line(error: Exception) -> str:
    """Return an exception's type and message in one line of at most 300 characters."""
    message = " ".join(str(json_value(error)).split())
    return f"{type(error).__name__}: {message}"[:300] if message else type(error).__name__
