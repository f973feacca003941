"""LangChain and LangGraph by `opentelemetry-instrumentation-genai-langchain`, which keeps to the conventions.

What its tools answer is LangChain's own: a message, or a command with the graph's state in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from spangrade.converters.spans import langchain_values
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.observation import Observation, json_value
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span


class LangChain:
    """Spans of the scope `opentelemetry.instrumentation.genai.langchain`."""

    def claims(self, span: Span, /) -> bool:
        """Claim by scope."""
        return span.scope_name == "opentelemetry.instrumentation.genai.langchain"

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span by the conventions, and a tool's answer as LangChain's."""
        a = with_events(span, logs)
        seen = genai.read(span, a)
        if seen.failed and langchain_values.control_flow(span):
            seen = seen._replace(failed=False, error=None)
        if seen.kind == "tool":
            return seen._replace(**langchain_values.answer(seen, json_value(a.get(semconv.TOOL_CALL_RESULT))))
        return seen


DIALECT = LangChain()
