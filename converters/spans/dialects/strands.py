"""Strands Agents: messages are events of the spans, in Bedrock's shape or in that of the conventions.

A tool's arguments and result are messages too. Agent spans carry the usage of the agent's whole life. The
first versions (0.1) name no operation, and keep content in attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.messages import message_of, unwrapped
from spangrade.converters.spans.observation import Observation, json_text, json_value
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span


class Strands:
    """Spans of the scopes `strands.telemetry.tracer` and `strands-agents`."""

    def claims(self, span: Span, /) -> bool:
        """Claim by scope."""
        return span.scope_name is not None and span.scope_name.startswith("strands")

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span by the conventions, and a tool's span by its messages."""
        a = with_events(span, logs)
        if semconv.OPERATION_NAME not in a:
            a = {**a, **_first_version(span, a)}
        seen = genai.read(span, a)
        return _tool(seen, a) if seen.kind == "tool" else seen


DIALECT = Strands()


def _first_version(span: Span, a: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a span of 0.1 says, in the words of later ones."""
    if "tool.name" in a:
        return {
            semconv.OPERATION_NAME: semconv.EXECUTE_TOOL,
            semconv.TOOL_NAME: a["tool.name"],
            semconv.TOOL_CALL_ID: a.get("tool.id"),
            semconv.TOOL_CALL_ARGUMENTS: a.get("tool.parameters"),
            semconv.TOOL_CALL_RESULT: a.get("tool.result"),
            "gen_ai.tool.status": a.get("tool.status"),
        }
    if span.name == "Model invoke":
        answer = {"role": "assistant", "content": json_value(a.get("gen_ai.completion"))}
        return {semconv.OPERATION_NAME: semconv.CHAT, semconv.OUTPUT_MESSAGES: [answer]}
    if "agent.name" in a and "event_loop.cycle_id" not in a:
        return {semconv.OPERATION_NAME: semconv.INVOKE_AGENT, semconv.AGENT_NAME: a["agent.name"]}
    return {}


def _tool(seen: Observation, a: Mapping[str, Any]) -> Observation:
    arguments = seen.arguments
    result = None if seen.result is None else json_text(unwrapped(json_value(seen.result)))
    for raw in _list(a.get(semconv.INPUT_MESSAGES)):
        message = message_of(raw)
        if arguments is None and message is not None:
            if message.tool_calls:
                arguments = message.tool_calls[0].arguments
            elif message.tool_results:  # the event of an older version: the content is the arguments
                arguments = message.tool_results[0].result
    for raw in _list(a.get(semconv.OUTPUT_MESSAGES)):
        message = message_of(raw)
        if result is None and message is not None:
            if message.tool_results:
                result = message.tool_results[0].result
            elif isinstance(raw, dict) and "content" in raw:
                result = json_text(unwrapped(raw["content"]))
    failed = seen.failed or a.get("gen_ai.tool.status") == "error"
    return seen._replace(arguments=arguments, result=result, failed=failed)


def _list(value: Any) -> Sequence[Any]:
    messages = json_value(value)
    return messages if isinstance(messages, list) else ()
