"""Claude Code, which also runs under the Claude Agent SDK: its traces (beta) and the log events beside them.

An interaction is a turn of the main agent, which has no name. Arguments of tools and the final texts are only
in log events; a tool's result is an event of its span, its failure stands on the span of its execution.

https://code.claude.com/docs/en/monitoring-usage
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import MessageCall
from spangrade.converters.spans.provider_values import tokens
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import first_text, json_text, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

# The tools that start a sub-agent, of whose arguments the log has only some.
_PARTLY_LOGGED = ("Agent", "Task")


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by Claude Code's attributes and events, and by the GenAI conventions what they lack."""
    attributes = span.attributes
    kind = span.name.removeprefix("claude_code.")
    own = {semconv.OPERATION_NAME: semconv.CHAT} if kind == "llm_request" else {}
    observation = genai.read_attributes(span, {**attributes, **own})
    if attributes.get("success") is False:
        error = observation.error if observation.error != attributes.get("error.type") else None
        observation = observation._replace(failed=True, error=text(attributes.get("error")) or error)
    match kind:
        case "interaction":
            return observation._replace(**_interaction(attributes, logs))
        case "llm_request":
            return observation._replace(**_tokens(attributes))
        case "tool":
            name = text(attributes.get(semconv.TOOL_NAME)) or text(attributes.get("tool_name"))
            output = _output(span)
            return observation._replace(
                kind="tool" if name else "other",
                name=name,
                call_id=observation.call_id or text(attributes.get("tool_use_id")),
                result=None if output is None else json_text(output),
            )
        case "tool.execution":
            return observation._replace(**_execution(observation, attributes, logs))
    return observation._replace(kind="other")


def _interaction(attributes: Mapping[str, Any], logs: Sequence[LogRecord]) -> dict[str, Any]:
    answers = [log.attributes.get("response") for log in _events(logs, "assistant_response")]
    return {
        "kind": "turn",
        "user_input": text(attributes.get("user_prompt")),
        "response": first_text(reversed(answers)),
        "tool_calls": tuple(_call(log.attributes) for log in _events(logs, "tool_result")),
    }


def _call(result: Mapping[str, Any]) -> MessageCall:
    is_whole = result.get("tool_name") not in _PARTLY_LOGGED
    arguments = json_text(result.get("tool_input")) if is_whole else None
    return MessageCall(None, text(result.get("tool_use_id")), arguments)


def _execution(
    observation: Reading, attributes: Mapping[str, Any], logs: Sequence[LogRecord]
) -> dict[str, Any]:
    """Return a sub-agent's run, or the failure of the tool whose span is the parent."""
    subagent = first_text(log.attributes.get("agent_type") for log in _events(logs, "subagent_completed"))
    if subagent:
        answers = [log.attributes.get("response") for log in _events(logs, "assistant_response")]
        response = first_text(reversed(answers))
        return {"kind": "agent", "name": subagent, "agent": subagent, "response": response}
    call_id = observation.call_id or text(attributes.get("tool_use_id"))
    return {"kind": "tool" if observation.failed and call_id else "other", "name": None, "call_id": call_id}


def _events(logs: Sequence[LogRecord], name: str) -> Iterator[LogRecord]:
    for log in sorted(logs, key=lambda record: record.time_ns):
        if (log.event_name or log.attributes.get("event.name")) in {name, f"claude_code.{name}"}:
            yield log


def _output(span: Span) -> Any:
    """Return the output of a tool, which an event of its span holds."""
    return next((e["attributes"].get("output") for e in span.events if e.get("name") == "tool.output"), None)


def _tokens(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a model call, whose input leaves out what was cached."""
    cached = {
        f"cache_{name}_input_tokens": attributes.get(f"cache_{name}_tokens") for name in ("read", "creation")
    }
    counted = {name: attributes.get(name) for name in ("input_tokens", "output_tokens")}
    return tokens(counted | cached)


DIALECT = Dialect(
    name="claude-code",
    signs=Signs(name_prefixes=("claude_code.",)),
    read=read,
    repeats_calls=True,
    advice=Advice(
        name="Claude Agent SDK",
        content="set OTEL_LOG_USER_PROMPTS=1, OTEL_LOG_TOOL_DETAILS=1 and OTEL_LOG_TOOL_CONTENT=1, "
        "and import the logs too",
        tools="set CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1 and OTEL_TRACES_EXPORTER=otlp, and import the "
        "logs too",
        model_calls="set CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1 and OTEL_TRACES_EXPORTER=otlp",
    ),
)
