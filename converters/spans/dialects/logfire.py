"""Logfire's own instrumentations of the OpenAI and Anthropic clients.

They keep the request and the response as the provider has them; newer ones write the GenAI conventions as
well. A streamed call is two spans: the request, and a log with the answer when its stream has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.observation import Observation, count, json_value
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span


class Logfire:
    """Spans of Logfire's scopes that carry a request to a model."""

    def claims(self, span: Span, /) -> bool:
        """Claim by scope and attribute."""
        return "request_data" in span.attributes and (span.scope_name or "").startswith("logfire")

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span by the conventions, and what they lack from the request and the response."""
        a = dict(with_events(span, logs))
        request, response = _document(a.get("request_data")), _document(a.get("response_data"))
        message = response.get("message")
        if "messages" in request:
            a.setdefault(semconv.OPERATION_NAME, semconv.CHAT)
            a.setdefault(semconv.INPUT_MESSAGES, request["messages"])
        if isinstance(message, dict):
            a.setdefault(semconv.OUTPUT_MESSAGES, [_unwrapped(message)])
        elif "combined_chunk_content" in response:
            a.setdefault(semconv.OUTPUT_MESSAGES, response["combined_chunk_content"])
        ended = a.get("logfire.span_type") == "log"
        seen = genai.read(span, a)._replace(
            **_usage(_document(response.get("usage") or a.get("gen_ai.usage.raw")))
        )
        if request.get("stream") and not ended and not seen.failed:
            return seen._replace(kind="other")  # the log tells of the same call, and what came of it
        duration = a.get("duration")
        if ended and isinstance(duration, int | float):
            return seen._replace(start_ns=span.end_ns - int(duration * 1e9))
        return seen


DIALECT = Logfire()


def _document(value: Any) -> Mapping[str, Any]:
    found = json_value(value)
    return found if isinstance(found, dict) else {}


def _unwrapped(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with its tool calls' arguments out of the `{"input": …}` that Anthropic's stand in."""
    calls = []
    for call in message.get("tool_calls") or ():
        function = _document(call.get("function")) if isinstance(call, dict) else {}
        inner = _document(function.get("arguments"))
        if inner.keys() == {"input"} and isinstance(inner["input"], dict):
            call = {**call, "function": {**function, "arguments": inner["input"]}}
        calls.append(call)
    return {**message, "tool_calls": calls}


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return tokens by the conventions from a provider's own count: Anthropic's leaves cached input out."""
    read, written = (count(usage.get(f"cache_{name}_input_tokens")) for name in ("read", "creation"))
    if read is not None or written is not None:
        fresh = count(usage.get("input_tokens"))
        total = None if fresh is None else fresh + (read or 0) + (written or 0)
        found = {
            "input_tokens": total,
            "output_tokens": count(usage.get("output_tokens")),
            "cached_input_tokens": read,
            "cache_write_tokens": written,
        }
    else:
        details = [_document(usage.get(f"{name}_tokens_details")) for name in ("prompt", "input")]
        answer = [_document(usage.get(f"{name}_tokens_details")) for name in ("completion", "output")]
        found = {
            "input_tokens": count(usage.get("prompt_tokens", usage.get("input_tokens"))),
            "output_tokens": count(usage.get("completion_tokens", usage.get("output_tokens"))),
            "cached_input_tokens": next((count(d.get("cached_tokens")) for d in details if d), None),
            "reasoning_tokens": next((count(d.get("reasoning_tokens")) for d in answer if d), None),
        }
    return {name: value for name, value in found.items() if value is not None}
