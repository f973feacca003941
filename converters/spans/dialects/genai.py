"""The OpenTelemetry GenAI semantic conventions: the tracer's own spans, and whoever keeps to them.

https://opentelemetry.io/docs/specs/semconv/gen-ai/. This dialect claims every span; the others read what
they share with it through `read` and change what differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.history import thread
from spangrade.converters.spans.messages import code_executions, exchange
from spangrade.converters.spans.observation import (
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
    "chat.completions": "llm",  # Semantic Kernel, as the three below
    "chat.streaming_completions": "llm",
    "text.completions": "llm",
    "text.streaming_completions": "llm",
}
_IN_NAMES = frozenset({semconv.INVOKE_AGENT, semconv.INVOKE_WORKFLOW, semconv.EXECUTE_TOOL})
# A tool span that is no execution of a tool: ADK's summary of a round of parallel calls.
_NO_TOOLS = frozenset({"(merged tools)", "(merged)"})
_NO_CALL_IDS = frozenset({"<not specified>"})

# Every spelling that has been published, or is written by those who keep to the conventions; newest first.
_CONVERSATION_IDS = (semconv.CONVERSATION_ID, "gen_ai.thread.id", "session.id")
_PROVIDERS = (semconv.PROVIDER_NAME, "gen_ai.system")
_MODELS = (semconv.RESPONSE_MODEL, semconv.REQUEST_MODEL)
_INPUTS = (semconv.INPUT_MESSAGES, "gen_ai.prompt")
_OUTPUTS = (semconv.OUTPUT_MESSAGES, "gen_ai.completion")
_TOKENS = (
    ("input_tokens", (semconv.INPUT_TOKENS, "gen_ai.usage.prompt_tokens")),
    ("output_tokens", (semconv.OUTPUT_TOKENS, "gen_ai.usage.completion_tokens")),
    (
        "cached_input_tokens",
        (
            semconv.CACHE_READ_TOKENS,
            "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.details.cache_read_tokens",
            "gen_ai.usage.details.cache_read_input_tokens",
            "gen_ai.usage.details.cached_tokens",
        ),
    ),
    (
        "reasoning_tokens",
        (
            semconv.REASONING_TOKENS,
            "gen_ai.usage.reasoning_tokens",
            "gen_ai.usage.details.reasoning_tokens",
            "gen_ai.usage.details.thoughts_tokens",
        ),
    ),
    (
        "cache_write_tokens",
        (
            semconv.CACHE_WRITE_TOKENS,
            "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens",
            "gen_ai.usage.cache_write_input_tokens",
            "gen_ai.usage.details.cache_write_tokens",
            "gen_ai.usage.details.cache_creation_input_tokens",
        ),
    ),
)


class GenAI:
    """The conventions as they stand, and the fallback for every span that no other dialect claims."""

    def claims(self, _: Span, /) -> bool:
        """Claim every span."""
        return True

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span by its `gen_ai.*` attributes, and by the events among its logs what it left out."""
        return read(span, with_events(span, logs))


DIALECT = GenAI()


def read(span: Span, a: Mapping[str, Any]) -> Observation:
    """Read a span by the conventions, given its attributes `a` (and what its events add to them)."""
    operation = a.get(semconv.OPERATION_NAME)
    if operation is None and (begins := span.name.partition(" ")[0]) in _IN_NAMES:
        operation = begins
    kind = "turn" if a.get(semconv.TURN) else _KINDS.get(operation, "other")
    tool, agent = text(a.get(semconv.TOOL_NAME)), text(a.get(semconv.AGENT_NAME))
    if kind == "tool":
        tool = tool or _in_name(span, semconv.EXECUTE_TOOL)
        if tool is None or tool in _NO_TOOLS:
            kind = "other"
    elif kind == "agent":
        agent = agent or _in_name(span, semconv.INVOKE_AGENT)
    inputs, outputs = _messages(a) if kind in {"llm", "agent"} else (None, None)
    said = None if inputs is None and outputs is None else exchange(inputs, outputs, injected=is_context)
    # A web server's spans may carry a `session.id` of another kind.
    conversation = text(a.get(semconv.CONVERSATION_ID) if kind == "other" else _first(a, _CONVERSATION_IDS))
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
        conversation_id=conversation,
        question_id=text(a.get(semconv.QUESTION_ID)),
        user_input=text(a.get(semconv.TURN_INPUT)) or (said.user_input if said else None),
        response=text(a.get(semconv.TURN_OUTPUT)) or (said.response if said else None),
        continues=said.continues if said else None,
        provider=text(_first(a, _PROVIDERS)),
        model=text(_first(a, _MODELS)),
        call_key=text(a.get(semconv.RESPONSE_ID)),
        arguments=json_text(a.get(semconv.TOOL_CALL_ARGUMENTS)),
        result=json_text(a.get(semconv.TOOL_CALL_RESULT)),
        call_id=None if call_id in _NO_CALL_IDS else call_id,
        # Older instrumentations leave such parts out: that none is told of does not mean that there was none.
        code_executions=code_executions(outputs) or None,
        failed=failed,
        error=error,
        tool_calls=said.tool_calls if said else (),
        tool_results=said.tool_results if said else (),
        state=_state(span, a),
        timed=span.end_ns >= span.start_ns and not a.get(semconv.DURATION_UNKNOWN),
        thread=thread(inputs, outputs) if kind == "llm" and conversation is None else None,
        **(_usage(a) if kind in {"llm", "other"} else {}),
    )


def _usage(a: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a model call; agents repeat those of their calls."""
    return {name: count(_first(a, names)) for name, names in _TOKENS}


def _in_name(span: Span, operation: str) -> str | None:
    """Return what a span's own name says after the operation: `get_cart` of `execute_tool get_cart`."""
    return text(span.name[len(operation) + 1 :]) if span.name.startswith(f"{operation} ") else None


def _first(a: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value of the first of the names that there is."""
    for name in names:
        if name in a:
            return a[name]
    return None


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


def _messages(a: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the messages that went in and those that came out; both None if neither is recorded."""
    inputs, outputs = json_value(_first(a, _INPUTS)), json_value(_first(a, _OUTPUTS))
    if isinstance(inputs, str):
        inputs = [{"role": "user", "content": inputs}]
    if isinstance(outputs, str):
        outputs = [{"role": "assistant", "content": outputs}]
    return inputs, outputs


def is_context(said: str) -> bool:
    """Tell whether a text of role user is a framework's: ADK on another agent's work, crewAI on a task."""
    return said.startswith(("For context:", "\nCurrent Task:"))
