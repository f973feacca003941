"""The OpenTelemetry GenAI semantic conventions: the tracer's own spans, and whoever keeps to them.

https://opentelemetry.io/docs/specs/semconv/gen-ai/. This dialect claims every span; the others read what
they share with it through `read` and change what differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.messages import Exchange, exchange
from spangrade.converters.observation import (
    Kind,
    Observation,
    count,
    json_text,
    json_value,
    text,
)
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_KINDS: dict[Any, Kind] = {
    semconv.INVOKE_AGENT: "agent",
    semconv.INVOKE_WORKFLOW: "workflow",
    semconv.EXECUTE_TOOL: "tool",
    semconv.CHAT: "llm",
    "generate_content": "llm",
    "text_completion": "llm",
}
# A tool span that is no execution of a tool: ADK's summary of a round of parallel calls.
_NO_TOOLS = frozenset({"(merged tools)", "(merged)"})
_NO_CALL_IDS = frozenset({"<not specified>"})


class GenAI:
    """The conventions as they stand, and the fallback for every span that no other dialect claims."""

    def claims(self, _: Span, /) -> bool:
        """Claim every span."""
        return True

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span by its `gen_ai.*` attributes, and by the events among its logs what it left out."""
        return read(span, with_events(span.attributes, logs))


DIALECT = GenAI()


def read(span: Span, a: Mapping[str, Any]) -> Observation:
    """Read a span by the conventions, given its attributes `a` (and what its events add to them)."""
    kind = _KINDS.get(a.get(semconv.OPERATION_NAME), "other")
    if a.get(semconv.TURN):
        kind = "turn"
    tool = text(a.get(semconv.TOOL_NAME))
    if kind == "tool" and (tool is None or tool in _NO_TOOLS):
        kind = "other"
    agent = text(a.get(semconv.AGENT_NAME))
    said = _exchange(a) if kind in {"llm", "agent"} else None
    failed, error = failure(span, a)
    call_id = text(a.get(semconv.TOOL_CALL_ID))
    return Observation(
        kind,
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.start_ns,
        span.end_ns,
        name=tool if kind == "tool" else agent,
        agent=agent,
        conversation_id=text(a.get(semconv.CONVERSATION_ID)),
        question_id=text(a.get(semconv.QUESTION_ID)),
        user_input=text(a.get(semconv.TURN_INPUT)) or (said.user_input if said else None),
        response=text(a.get(semconv.TURN_OUTPUT)) or (said.response if said else None),
        continues=said.continues if said else None,
        provider=text(a.get(semconv.PROVIDER_NAME)) or text(a.get("gen_ai.system")),
        model=text(a.get(semconv.RESPONSE_MODEL)) or text(a.get(semconv.REQUEST_MODEL)),
        call_key=text(a.get(semconv.RESPONSE_ID)),
        input_tokens=count(a.get(semconv.INPUT_TOKENS)),
        output_tokens=count(a.get(semconv.OUTPUT_TOKENS)),
        cached_input_tokens=count(a.get(semconv.CACHE_READ_TOKENS)),
        reasoning_tokens=count(a.get(semconv.REASONING_TOKENS)),
        cache_write_tokens=count(a.get(semconv.CACHE_WRITE_TOKENS)),
        arguments=json_text(a.get(semconv.TOOL_CALL_ARGUMENTS)),
        result=json_text(a.get(semconv.TOOL_CALL_RESULT)),
        call_id=None if call_id in _NO_CALL_IDS else call_id,
        failed=failed,
        error=error,
        tool_calls=said.tool_calls if said else (),
        tool_results=said.tool_results if said else (),
        state=_state(span, a),
    )


def _state(span: Span, a: Mapping[str, Any]) -> tuple[tuple[int, Mapping[str, Any]], ...]:
    writes = [(span.end_ns, a[semconv.STATE])] if semconv.STATE in a else []
    writes += [
        (event["time_ns"], event["attributes"].get(semconv.STATE))
        for event in span.events
        if event.get("name") == semconv.STATE
    ]
    values = [(time_ns, json_value(value)) for time_ns, value in writes]
    return tuple((time_ns, value) for time_ns, value in values if isinstance(value, dict))


def failure(span: Span, a: Mapping[str, Any]) -> tuple[bool, str | None]:
    """Return whether a span records a failure (status, `error.type` or an exception), and what it says."""
    exceptions = [e["attributes"] for e in span.events if e.get("name") == "exception"]
    if span.status != "ERROR" and semconv.ERROR_TYPE not in a and not exceptions:
        return False, None
    for attributes in exceptions:
        if message := text(attributes.get("exception.message")):
            return True, message
    return True, span.status_message or text(a.get("error.message")) or text(a.get(semconv.ERROR_TYPE))


def with_events(attributes: Mapping[str, Any], logs: Sequence[LogRecord]) -> Mapping[str, Any]:
    """Return a span's attributes with what only its events carry added to them.

    Current events (`gen_ai.client.inference.operation.details`) have the messages as attributes; older
    ones (`gen_ai.user.message`, `gen_ai.choice`, …) are one message each.
    """
    if not logs:
        return attributes
    merged: dict[str, Any] = {}
    inputs: list[Any] = []
    outputs: list[Any] = []
    for log in sorted(logs, key=lambda record: record.time_ns):
        name = log.event_name or ""
        if name == "gen_ai.client.inference.operation.details":
            merged.update(log.attributes)
        elif name.startswith("gen_ai.") and isinstance(log.body, dict):
            message = _event_message(name, log.body)
            if message is not None:
                (outputs if name == "gen_ai.choice" else inputs).append(message)
    if inputs:
        merged.setdefault(semconv.INPUT_MESSAGES, inputs)
    if outputs:
        merged.setdefault(semconv.OUTPUT_MESSAGES, outputs)
    merged.update(attributes)
    return merged


def _exchange(a: Mapping[str, Any]) -> Exchange | None:
    inputs, outputs = a.get(semconv.INPUT_MESSAGES), a.get(semconv.OUTPUT_MESSAGES)
    if inputs is None and outputs is None:
        return None
    return exchange(json_value(inputs), json_value(outputs), injected=is_context)


def is_context(said: str) -> bool:
    """Tell whether a text of role user is ADK telling an agent what another one did."""
    return said.startswith("For context:")


def _event_message(event: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    content = body.get("message") if event == "gen_ai.choice" else body
    if not isinstance(content, dict):
        content = body
    inner = content.get("content")
    if isinstance(inner, dict) and "parts" in inner:  # Google's own Content inside the event
        return _google_event(event, inner)
    role = text(content.get("role")) or {
        "gen_ai.user.message": "user",
        "gen_ai.system.message": "system",
        "gen_ai.tool.message": "tool",
    }.get(event, "assistant")
    parts: list[dict[str, Any]] = []
    if role == "tool":
        parts.append({"type": "tool_call_response", "id": content.get("id"), "response": inner})
    elif isinstance(inner, str):
        parts.append({"type": "text", "content": inner})
    for call in content.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            parts.append({"type": "tool_call", "id": call.get("id"), **function})
    return {"role": role, "parts": parts}


def _google_event(event: str, content: Mapping[str, Any]) -> dict[str, Any]:
    role = "user" if event == "gen_ai.user.message" else "assistant"
    parts: list[dict[str, Any]] = []
    for part in content.get("parts") or ():
        if not isinstance(part, dict):
            continue
        call, answer = part.get("function_call"), part.get("function_response")
        if isinstance(call, dict):
            parts.append(
                {
                    "type": "tool_call",
                    "id": call.get("id"),
                    "name": call.get("name"),
                    "arguments": call.get("args"),
                }
            )
        elif isinstance(answer, dict):
            parts.append({"type": "tool_call_response", **answer})
        elif isinstance(part.get("text"), str) and not part.get("thought"):
            parts.append({"type": "text", "content": part["text"]})
    return {"role": role, "parts": parts}
