"""The OpenAI Agents SDK by `opentelemetry-instrumentation-openai-agents-v2`.

Its agent's name is a placeholder but on `invoke_agent`; what is no text in a message is the text of a
Python value: `ResponseFunctionToolCall(arguments='{}', call_id='call_5', …)`, `{'text': 'Hello', …}`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.observation import Observation, json_value, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_REDACTED = frozenset({"readacted", "redacted"})  # the former is how it is spelt there


class OpenAIAgents:
    """Spans of the scope `opentelemetry.instrumentation.openai_agents`."""

    def claims(self, span: Span, /) -> bool:
        """Claim by scope, which Traceloop's has too."""
        return (
            span.scope_name == "opentelemetry.instrumentation.openai_agents"
            and "traceloop.span.kind" not in span.attributes
            and "gen_ai.prompt.0.role" not in span.attributes
        )

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span by the conventions, without its placeholders and with its hand-offs."""
        a = dict(with_events(span, logs))
        for name in (semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES):
            if name in a:
                a[name] = _messages(json_value(a[name]))
        seen = genai.read(span, a)
        source, target = text(a.get("gen_ai.handoff.from_agent")), text(a.get("gen_ai.handoff.to_agent"))
        if target:
            return seen._replace(kind="handoff", name=None, agent=source, handoff_to=target)
        if seen.kind != "agent":
            return seen._replace(agent=None, name=seen.name if seen.kind == "tool" else None)
        return seen


DIALECT = OpenAIAgents()


def _messages(messages: Any) -> Any:
    if not isinstance(messages, list):
        return messages
    return [
        {**message, "parts": [read for part in message["parts"] if (read := _part(part)) is not None]}
        if isinstance(message, dict) and isinstance(message.get("parts"), list)
        else message
        for message in messages
    ]


def _part(part: Any) -> Any:
    content = part.get("content") if isinstance(part, dict) else None
    if not isinstance(content, str):
        return part
    if content in _REDACTED:
        return None
    if content.startswith("Response") and content.endswith(")"):
        fields = _literals(content)
        if fields is not None and "call_id" in fields:
            return {"type": "tool_call", **fields, "id": fields["call_id"]}
        return part if fields is None else None  # reasoning, a built-in tool's call: nothing that was said
    if content.startswith("{'") and content.endswith("}"):
        fields = _literals(content)
        if fields is not None and fields.get("type") == "output_text":
            return {"type": "text", "content": fields.get("text")}
    return part


def _literals(source: str) -> Mapping[str, Any] | None:
    """Return the fields of a dict or of a call in Python's spelling; None if it is neither."""
    try:
        tree = ast.parse(source, mode="eval").body
        if isinstance(tree, ast.Call):
            return {k.arg: _literal(k.value) for k in tree.keywords if k.arg}
        value = ast.literal_eval(tree)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None


def _literal(node: ast.expr) -> Any:
    """Return a literal's value; None for what is none (a nested model)."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
