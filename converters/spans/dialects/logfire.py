"""Logfire's own instrumentations of the OpenAI and Anthropic clients.

They keep the request and the response as the provider has them; newer ones write the GenAI conventions as
well. A streamed call is two spans: the request, and a log with the response when its stream has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans.dialect import STREAMED, Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.observation import Kind, ModelCall, Observation, changed, structure_of
from spangrade.converters.spans.provider_values import tokens
from spangrade.converters.spans.values import json_object, objects
from spangrade.tracer import semconv
from spangrade.tracer.span import Span


def _kind(_: Span, attributes: Attributes) -> Kind | None:
    if semconv.OPERATION_NAME in attributes:
        return None
    return "llm" if "messages" in json_object(attributes.get("request_data")) else None


def _values(_: Span, attributes: Attributes, __: Kind | None) -> dict[str, Any]:
    """Return the messages of the request and of the response, where the conventions' own are not there."""
    request, response = (json_object(attributes.get(f"{side}_data")) for side in ("request", "response"))
    own: dict[str, Any] = {}
    if "messages" in request:
        own[semconv.INPUT_MESSAGES] = request["messages"]
    if isinstance(message := response.get("message"), dict):
        own[semconv.OUTPUT_MESSAGES] = [_unwrapped(message)]
    elif "combined_chunk_content" in response:
        own[semconv.OUTPUT_MESSAGES] = response["combined_chunk_content"]
    return {name: value for name, value in own.items() if name not in attributes}


def _model_call(call: ModelCall, span: Span, attributes: Attributes) -> Observation:
    request, response = (json_object(attributes.get(f"{side}_data")) for side in ("request", "response"))
    is_log = attributes.get("logfire.span_type") == "log"
    if request.get("stream") and not is_log and call.failure is None:
        return structure_of(call)  # the log records the same call, with its response
    duration = attributes.get("duration")
    if is_log and isinstance(duration, int | float) and 0 <= duration * 1e9 <= span.end_ns:
        call = call._replace(span=call.span._replace(start_ns=span.end_ns - int(duration * 1e9)))
    usage = json_object(response.get("usage") or attributes.get("gen_ai.usage.raw"))
    return changed(call, **tokens(usage))


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
    only_if=lambda span: "request_data" in span.attributes,
    kind=_kind,
    values=_values,
    fixes={"llm": _model_call},
    before=("openinference",),
    repeats_calls=True,
    advice=Advice(
        name="Logfire's model clients",
        content="let logfire.configure(scrubbing=…) keep request_data and response_data",
        conversation='run each turn in logfire.set_baggage(**{"session.id": …})',
        agents="run each agent in spangrade.agent(NAME), or in a logfire.span with gen_ai.agent.name",
        tools="run each tool in spangrade.tool(NAME), or record an execute_tool span around it",
        tokens=STREAMED,
    ),
)
