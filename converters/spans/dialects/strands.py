"""Strands Agents: messages are events of the spans, in Bedrock's shape or in that of the conventions.

A tool's arguments and result are messages too. Agent spans carry the usage of the agent's whole life. The
first versions (0.1) record no operation, and have the content in attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.messages import message_of
from spangrade.converters.spans.observation import Kind, RunSpan, ToolUse
from spangrade.converters.spans.parts import unwrapped
from spangrade.converters.spans.values import json_text, parse_json
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

# In TypeScript, the scope is the application's service.
_START = "gen_ai.event.start_time"
# The operations of several agents together. Each agent's prompt wraps the user's message.
_TEAMS = ("invoke_swarm", "invoke_graph")
_NAMES = {
    "system_prompt": semconv.SYSTEM_INSTRUCTIONS,
    "gen_ai.agent.tools": semconv.TOOL_DEFINITIONS,
    "tool.name": semconv.TOOL_NAME,
    "tool.id": semconv.TOOL_CALL_ID,
    "tool.parameters": semconv.TOOL_CALL_ARGUMENTS,
    "tool.result": semconv.TOOL_CALL_RESULT,
}


def _kind(span: Span, attributes: Attributes) -> Kind | None:
    operation = attributes.get(semconv.OPERATION_NAME)
    if operation in _TEAMS:
        return "agent"  # with messages, as an agent
    if operation is not None:
        return None
    if "tool.name" in attributes:
        return "tool"
    if span.name == "Model invoke":
        return "llm"
    return "agent" if "agent.name" in attributes and "event_loop.cycle_id" not in attributes else None


def _values(_: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    """Return the attributes of a span of 0.1 under the names of later versions."""
    if semconv.OPERATION_NAME in attributes:
        return {}
    if kind == "llm":
        response = {"role": "assistant", "content": parse_json(attributes.get("gen_ai.completion"))}
        return {semconv.OUTPUT_MESSAGES: [response]}
    return {semconv.AGENT_NAME: attributes["agent.name"]} if kind == "agent" else {}


def _agent(run: RunSpan, _: Span, attributes: Attributes) -> RunSpan:
    is_team = attributes.get(semconv.OPERATION_NAME) in _TEAMS
    return run._replace(is_agent=False, name=None, agent=None) if is_team else run


def _tool(call: ToolUse, _: Span, attributes: Attributes) -> ToolUse:
    given = call.result
    return call._replace(
        arguments=call.arguments or _arguments(attributes),
        result=_result(attributes) if given is None else json_text(unwrapped(parse_json(given))),
    )


def _arguments(attributes: Attributes) -> str | None:
    """Return the arguments of the first call among a tool's input messages."""
    for message in map(message_of, _list(attributes.get(semconv.INPUT_MESSAGES))):
        if message is None:
            continue
        if message.tool_calls and message.tool_calls[0].arguments is not None:
            return message.tool_calls[0].arguments
        # In the event of an older version, the content is the arguments.
        if not message.tool_calls and message.tool_results and message.tool_results[0].result is not None:
            return message.tool_results[0].result
    return None


def _result(attributes: Attributes) -> str | None:
    """Return the first result among a tool's output messages."""
    for raw in _list(attributes.get(semconv.OUTPUT_MESSAGES)):
        message, result = message_of(raw), None
        if message is not None and message.tool_results:
            result = message.tool_results[0].result
        elif message is not None and "content" in raw:
            result = json_text(unwrapped(raw["content"]))
        if result is not None:
            return result
    return None


def _list(value: Any) -> Sequence[Any]:
    messages = parse_json(value)
    return messages if isinstance(messages, list) else ()


DIALECT = Dialect(
    name="strands",
    signs=Signs(scope_prefixes=("strands",), attributes=frozenset({_START})),
    names=_NAMES,
    kind=_kind,
    values=_values,
    fixes={"agent": _agent, "tool": _tool},
    before=("traceloop",),
    advice=Advice(
        name="Strands",
        conversation='give the agent trace_attributes={"session.id": …}',
        agents="give the agent a name: Agent(name=…)",
    ),
)
