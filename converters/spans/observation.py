"""What one span says about an agent, in one vocabulary whatever instrumentation wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import orjson

from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.span import Span

Kind = Literal["turn", "workflow", "agent", "tool", "handoff", "llm", "other"]


class ToolCall(NamedTuple):
    """A tool call that a model asked for. `arguments` is canonical JSON text, None if unknown."""

    name: str | None
    call_id: str | None
    arguments: str | None


class ToolResult(NamedTuple):
    """What a model was told of a tool call. `result` is canonical JSON text, None if unknown."""

    name: str | None
    call_id: str | None
    result: str | None


class Thread(NamedTuple):
    """A model call's place in a conversation, as digests of what was said until then.

    `history` is all up to the model's last own message in the request, None where there is none and a
    conversation may begin; `asked` is the whole request; `reached` is the request and the answer, None
    without an answer.
    """

    history: str | None
    asked: str
    reached: str | None


class Observation(NamedTuple):
    """One span, read. None is *unknown* in every field; texts of JSON are canonical.

    `kind`: a *turn* stands for one user message, a *workflow* for a run of several agents; *handoff* is a
    transfer of control that is recorded as a span of its own; *other* only holds the tree together.
    `user_input` and `response` are what this span knows of its turn; `tool_calls` and `tool_results` what
    a model asked for, and was newly told, in this call. `call_key` is what two spans about one model call
    share. `grounding_chunks` are the sources that an answer was grounded on, `code_executions` the runs of
    code on the model's side. `failed` is a failure that the span itself records. `state` holds the writes as
    (time in ns, variables). `thread` is where a model call without a conversation id stands in its
    conversation.
    `timed` is false where the end is unknown: `end_ns` is then the earliest that it can have been.
    """

    kind: Kind
    trace_id: str
    span_id: str
    parent_span_id: str | None
    start_ns: int
    end_ns: int
    name: str | None = None
    agent: str | None = None
    conversation_id: str | None = None
    question_id: str | None = None
    user_input: str | None = None
    response: str | None = None
    continues: bool | None = None
    provider: str | None = None
    model: str | None = None
    call_key: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    grounding_chunks: int | None = None
    code_executions: int | None = None
    arguments: str | None = None
    result: str | None = None
    call_id: str | None = None
    failed: bool = False
    error: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    state: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    handoff_to: str | None = None
    thread: Thread | None = None
    timed: bool = True
    sampled: bool = False


def plain(span: Span) -> Observation:
    """Return the observation of a span that says nothing about agents."""
    return Observation("other", span.trace_id, span.span_id, span.parent_span_id, span.start_ns, span.end_ns)


def json_value(value: Any) -> Any:
    """Return what an attribute holds: the value of its JSON text, or the value itself if it is none."""
    if isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def json_text(value: Any) -> str | None:
    """Return an attribute's JSON value as canonical text; None if there is none."""
    return None if value is None else canonical(json_value(value))


def text(value: Any) -> str | None:
    """Return a value that is a non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """Return a value that is a count (an OTLP/JSON integer may be a string), else None."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number >= 0 else None
