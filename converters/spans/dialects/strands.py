"""Strands Agents: messages are events of the spans, in Bedrock's shape or in that of the conventions.

A tool's arguments and result are messages too. Agent spans carry the usage of the agent's whole life. The
first versions (0.1) record no operation, and have the content in attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.declarations import declared_tools, instructions
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.messages import message_of, unwrapped
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_text, parse_json
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

# In TypeScript, the scope is the application's service.
_START = "gen_ai.event.start_time"
# The operations of several agents together. Each agent's prompt wraps the user's message.
_TEAMS = ("invoke_swarm", "invoke_graph")


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the conventions, and a tool's span by its messages."""
    attributes = with_events(span, logs)
    if semconv.OPERATION_NAME not in attributes:
        attributes = {**attributes, **_first_version(span, attributes)}
    elif attributes[semconv.OPERATION_NAME] in _TEAMS:  # with messages, as an agent
        run = genai.read_attributes(span, {**attributes, semconv.OPERATION_NAME: semconv.INVOKE_AGENT})
        return run._replace(kind="workflow", name=None, agent=None)
    observation = genai.read_attributes(span, attributes)
    if observation.kind == "agent" and observation.tool_declarations is None:
        return observation._replace(
            tool_declarations=declared_tools(attributes.get("gen_ai.agent.tools")),
            system_instructions=observation.system_instructions
            or instructions(attributes.get("system_prompt")),
        )
    return _tool(observation, attributes) if observation.kind == "tool" else observation


def _first_version(span: Span, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span of 0.1 under the names of later versions."""
    if "tool.name" in attributes:
        return {
            semconv.OPERATION_NAME: semconv.EXECUTE_TOOL,
            semconv.TOOL_NAME: attributes["tool.name"],
            semconv.TOOL_CALL_ID: attributes.get("tool.id"),
            semconv.TOOL_CALL_ARGUMENTS: attributes.get("tool.parameters"),
            semconv.TOOL_CALL_RESULT: attributes.get("tool.result"),
            "gen_ai.tool.status": attributes.get("tool.status"),
        }
    if span.name == "Model invoke":
        response = {"role": "assistant", "content": parse_json(attributes.get("gen_ai.completion"))}
        return {semconv.OPERATION_NAME: semconv.CHAT, semconv.OUTPUT_MESSAGES: [response]}
    if "agent.name" in attributes and "event_loop.cycle_id" not in attributes:
        return {semconv.OPERATION_NAME: semconv.INVOKE_AGENT, semconv.AGENT_NAME: attributes["agent.name"]}
    return {}


def _tool(observation: Reading, attributes: Mapping[str, Any]) -> Reading:
    result = observation.result
    return observation._replace(
        arguments=observation.arguments or _arguments(attributes),
        result=_result(attributes) if result is None else json_text(unwrapped(parse_json(result))),
        failed=observation.failed or attributes.get("gen_ai.tool.status") == "error",
    )


def _arguments(attributes: Mapping[str, Any]) -> str | None:
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


def _result(attributes: Mapping[str, Any]) -> str | None:
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
    read=read,
    before=("traceloop",),
    advice=Advice(
        name="Strands",
        conversation='give the agent trace_attributes={"session.id": …}',
        agents="give the agent a name: Agent(name=…)",
    ),
)
