"""Pydantic AI, from 0.x to 2.x.

Older versions name tools and agents by the span's name alone, and keep messages in a list on the span.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.observation import Observation, json_text, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span


class PydanticAI:
    """Spans of the scope `pydantic-ai`."""

    def claims(self, span: Span, /) -> bool:
        """Claim by scope."""
        return span.scope_name == "pydantic-ai"

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span by the conventions, and what they lack by Pydantic AI's own attributes."""
        a = dict(with_events(span, logs))
        if semconv.OPERATION_NAME not in a:
            if span.name.startswith("running tool") and semconv.TOOL_NAME in a:
                a[semconv.OPERATION_NAME] = semconv.EXECUTE_TOOL
            elif "agent_name" in a:
                a[semconv.OPERATION_NAME] = semconv.INVOKE_AGENT
        seen = genai.read(span, a)
        changes: dict[str, Any] = {}
        if seen.kind == "tool":
            if str(a.get("logfire.msg")).startswith("running output function"):
                changes["kind"] = "other"  # the last step of a structured answer, and no tool
            changes["arguments"] = seen.arguments or json_text(a.get("tool_arguments"))
            changes["result"] = seen.result or json_text(a.get("tool_response"))
        elif seen.kind == "agent":
            name = seen.agent or text(a.get("agent_name"))
            changes |= {"name": name, "agent": name}
            changes["response"] = seen.response or text(a.get("final_result"))
        return seen._replace(**changes) if changes else seen


DIALECT = PydanticAI()
