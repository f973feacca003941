"""Logfire's own instrumentations of the OpenAI and Anthropic clients.

They keep the request and the response as the provider has them; newer ones write the GenAI conventions as
well. A streamed call is two spans: the request, and a log with the response when its stream has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.advice import STREAMED, Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.provider_values import tokens
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_object, objects
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the conventions, and what they lack from the request and the response."""
    attributes = dict(with_events(span, logs))
    request = json_object(attributes.get("request_data"))
    response = json_object(attributes.get("response_data"))
    if "messages" in request:
        attributes.setdefault(semconv.OPERATION_NAME, semconv.CHAT)
        attributes.setdefault(semconv.INPUT_MESSAGES, request["messages"])
    if isinstance(message := response.get("message"), dict):
        attributes.setdefault(semconv.OUTPUT_MESSAGES, [_unwrapped(message)])
    elif "combined_chunk_content" in response:
        attributes.setdefault(semconv.OUTPUT_MESSAGES, response["combined_chunk_content"])
    usage = json_object(response.get("usage") or attributes.get("gen_ai.usage.raw"))
    observation = genai.read_attributes(span, attributes)._replace(**tokens(usage))
    is_log = attributes.get("logfire.span_type") == "log"
    if request.get("stream") and not is_log and not observation.failed:
        return observation._replace(kind="other")  # the log records the same call, with its response
    duration = attributes.get("duration")
    if is_log and isinstance(duration, int | float) and 0 <= duration * 1e9 <= span.end_ns:
        return observation._replace(start_ns=span.end_ns - int(duration * 1e9))
    return observation


def _unwrapped(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with its tool calls' arguments out of Anthropic's `{"input": …}` around them."""
    calls = []
    for call in objects(message.get("tool_calls")):
        function = json_object(call.get("function"))
        arguments = json_object(function.get("arguments"))
        if arguments.keys() == {"input"} and isinstance(arguments["input"], dict):
            call = {**call, "function": {**function, "arguments": arguments["input"]}}
        calls.append(call)
    return {**message, "tool_calls": calls}


DIALECT = Dialect(
    name="logfire",
    signs=Signs(scope_prefixes=("logfire",)),
    read=read,
    repeats_calls=True,
    only_if=lambda span: "request_data" in span.attributes,
    before=("openinference",),
    advice=Advice(
        name="Logfire's model clients",
        content="let logfire.configure(scrubbing=…) keep request_data and response_data",
        conversation='run each turn in logfire.set_baggage(**{"session.id": …})',
        agents="run each agent in spangrade.agent(NAME), or in a logfire.span with gen_ai.agent.name",
        tools="run each tool in spangrade.tool(NAME), or record an execute_tool span around it",
        tokens=STREAMED,
    ),
)
