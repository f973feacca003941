"""Dialects: what each instrumentation writes on its spans, read into observations.

A dialect claims the spans that it understands and reads them one at a time; the first that claims a span
reads it, and what none claims is read by the GenAI conventions. They are found by the entry point group
`spangrade.dialects`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol, runtime_checkable

from spangrade.converters.spans.observation import Observation
from spangrade.tracer.plugins import load_plugins
from spangrade.tracer.span import LogRecord, Span

FALLBACK = "genai"

# https://opentelemetry.io/docs/specs/otel/trace/tracestate-handling/: a threshold above 0 drops traces.
_SAMPLED = re.compile(r"(^|,)\s*ot=([^,]*;)?th:0*[1-9a-f]")


@runtime_checkable
class Dialect(Protocol):
    """How one family of instrumentations writes spans."""

    def claims(self, span: Span, /) -> bool:
        """Tell whether this dialect reads the span."""
        ...

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span together with the log records that belong to it."""
        ...


@cache
def dialects() -> Mapping[str, Dialect]:
    """Return the installed dialects by name, in the order in which they are asked; the fallback is last."""
    found = load_plugins("spangrade.dialects", Dialect)
    found[FALLBACK] = found.pop(FALLBACK)
    return found


def observe(spans: Iterable[Span], logs: Mapping[tuple[str, str], Sequence[LogRecord]]) -> list[Observation]:
    """Read spans, each with the logs recorded under its (trace id, span id)."""
    asked = tuple(dialects().values())
    observations = []
    for span in spans:
        for dialect in asked:
            if dialect.claims(span):
                seen = dialect.read(span, logs.get((span.trace_id, span.span_id), ()))
                sampled = span.trace_state is not None and _SAMPLED.search(span.trace_state)
                observations.append(seen._replace(sampled=True) if sampled else seen)
                break
    return observations
