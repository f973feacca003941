"""Claude Code, which also runs under the Claude Agent SDK: its traces (beta) and the log events beside them.

An interaction is a turn of the main agent, which has no name. Arguments of tools and the final texts are only
in log events; a tool's result is an event of its span, its failure stands on the span of its execution.

https://code.claude.com/docs/en/monitoring-usage
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import (
    Kind,
    MessageCall,
    MessageExchange,
    ModelCall,
    Observation,
    RunSpan,
    Structure,
    ToolUse,
    TurnSpan,
    changed,
)
from spangrade.converters.spans.provider_values import tokens
from spangrade.converters.spans.values import first_text, json_text, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_KINDS: Mapping[str, Kind] = {"interaction": "turn", "llm_request": "llm", "tool": "tool"}
# The tools that start a sub-agent, of whose arguments the log has only some.
_PARTLY_LOGGED = ("Agent", "Task")


def read(span: Span, logs: Sequence[LogRecord]) -> Observation:
    """Read a span by Claude Code's attributes and events, then by the GenAI conventions."""
    attributes, word = span.attributes, span.name.removeprefix("claude_code.")
    given = {semconv.TOOL_NAME: attributes.get("tool_name"), **attributes}
    observation = genai.read_attributes(span, given, _KINDS.get(word, "other"))
    if attributes.get("success") is False:
        error = observation.failure and observation.failure.error
        error = text(attributes.get("error")) or (None if error == attributes.get("error.type") else error)
        observation = changed(observation, failed=True, error=error)
    if isinstance(observation, TurnSpan):
        calls = tuple(_call(log.attributes) for log in _events(logs, "tool_result"))
        asked, answer = text(attributes.get("user_prompt")), _answer(logs)
        return changed(observation, user_input=asked, response=answer, tool_calls=calls)
    if isinstance(observation, ModelCall):
        return changed(observation, **_tokens(attributes))
    if isinstance(observation, ToolUse):
        output = _output(span)
        return observation._replace(result=None if output is None else json_text(output))
    if isinstance(observation, Structure) and word == "tool.execution":
        return _execution(observation, attributes, logs)
    return observation


def _call(result: Mapping[str, Any]) -> MessageCall:
    is_whole = result.get("tool_name") not in _PARTLY_LOGGED
    arguments = json_text(result.get("tool_input")) if is_whole else None
    return MessageCall(None, text(result.get("tool_use_id")), arguments)


def _execution(base: Structure, attributes: Attributes, logs: Sequence[LogRecord]) -> Observation:
    """Return a sub-agent's run, or the failure of the tool whose span is the parent."""
    agent = first_text(log.attributes.get("agent_type") for log in _events(logs, "subagent_completed"))
    if agent:
        said = MessageExchange(response=_answer(logs))
        return RunSpan(*base._replace(agent=agent), exchange=said, name=agent, is_agent=True)
    call_id = first_text((attributes.get(semconv.TOOL_CALL_ID), attributes.get("tool_use_id")))
    return ToolUse(*base, call_id=call_id) if base.failure is not None and call_id else base


def _answer(logs: Sequence[LogRecord]) -> str | None:
    answers = [log.attributes.get("response") for log in _events(logs, "assistant_response")]
    return first_text(reversed(answers))


def _events(logs: Sequence[LogRecord], name: str) -> Iterator[LogRecord]:
    for log in sorted(logs, key=lambda record: record.time_ns):
        if (log.event_name or log.attributes.get("event.name")) in {name, f"claude_code.{name}"}:
            yield log


def _output(span: Span) -> Any:
    """Return the output of a tool, which an event of its span holds."""
    return next((e["attributes"].get("output") for e in span.events if e.get("name") == "tool.output"), None)


def _tokens(attributes: Attributes) -> dict[str, Any]:
    """Return the tokens of a model call, whose input leaves out cached tokens."""
    cached = {
        f"cache_{name}_input_tokens": attributes.get(f"cache_{name}_tokens") for name in ("read", "creation")
    }
    counted = {name: attributes.get(name) for name in ("input_tokens", "output_tokens")}
    return tokens(counted | cached)


_VARIABLES = "OTEL_LOG_USER_PROMPTS=1, OTEL_LOG_TOOL_DETAILS=1 and OTEL_LOG_TOOL_CONTENT=1"
_CONTENT = f"set {_VARIABLES}, and import the logs too"
DIALECT = Dialect(
    name="claude-code",
    signs=Signs(name_prefixes=("claude_code.",)),
    read=read,
    repeats_calls=True,
    advice=Advice(
        name="Claude Agent SDK",
        content=_CONTENT,
        replies=_CONTENT,
        tools="set CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1 and OTEL_TRACES_EXPORTER=otlp, and import the "
        "logs too",
        model_calls="set CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1 and OTEL_TRACES_EXPORTER=otlp",
    ),
)
