"""Whether a tool's call succeeded, waits for a person's approval, was interrupted for it, or was rejected.

One function reads the fields of a result, of a part of a message, of a record or of a span, whoever wrote
them: those *beside* the content. What a tool returned is its own data, of which only a few fields count
(`failed_by_data`).

Of approvals, a framework's own words for a tool that did not run are compared as a whole, and its own
exceptions: a text of a tool itself decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from spangrade.tracer import semconv
from spangrade.tracer.span import Span

Mark = Literal["succeeded", "failed", "unknown"]
_Role = Literal["failure", "success", "status", "doubt", "known", "other"]

# Fields, in snake_case, that tell of a failure unless they are null, false, 0 or empty.
FAILURES = frozenset(
    {
        *("error", "errors", "is_error", "has_error", "error_code", "error_details", "error_message"),
        *("error_text", "error_type", "exception", "exception_message", "exception_type", "failed"),
        *("failure", "failure_reason", "has_failed", "is_failure", "tool_call_error", "tool_error"),
        "traceback",
    }
)
# Fields that tell by true and false.
SUCCESSES = frozenset({"success", "succeeded", "is_success", "ok", "successful"})
# Fields with a word of how a call ended, alone or after another word (`tool_status`).
STATUSES = frozenset({"status", "state", "outcome"})
SUCCESS_WORDS = frozenset(
    {
        *("success", "succeeded", "successful", "ok", "okay", "complete", "completed", "done", "finished"),
        *("output_available", "outcome_ok", "result"),
    }
)
FAILURE_WORDS = frozenset(
    {
        *("error", "errored", "failed", "failure", "fail", "exception", "crashed", "timeout", "timed_out"),
        *("aborted", "cancelled", "canceled", "output_error", "outcome_failed", "outcome_deadline_exceeded"),
    }
)
# Words of states before a result: they mark nothing.
_BEFORE = frozenset(
    {"call", "partial_call", "input_available", "input_streaming", "approval_requested", "unset"}
)
_DOUBT = re.compile(r"error|fail|exception|denied")
_NEVER = (None, False, 0, "", "false", "null", "none")
# What stands beside a result without telling how the call ended.
_KNOWN = frozenset(
    {
        *("type", "kind", "part_kind", "object", "role", "id", "index", "name", "title", "text", "parts"),
        *("content", "result", "results", "response", "output", "outputs", "value", "return", "arguments"),
        *("args", "input", "ref", "origin", "function", "tool", "tool_name", "tool_type", "call_id"),
        *("tool_call_id", "tool_use_id", "source", "author", "agent", "model", "caller", "server_name"),
        *("server_label", "metadata", "response_metadata", "additional_kwargs", "artifact", "example"),
        *("internal", "cache_control", "annotations", "created_at", "timestamp", "time", "created"),
        *("provider_metadata", "provider_options", "call_provider_metadata", "provider_executed", "dynamic"),
        *("preliminary", "builtin", "container_id", "duration_ms", "usage", "tool_calls", "finish_reason"),
    }
)
_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATOR = re.compile(r"[^0-9A-Za-z]+")
Approval = Literal["asked", "approved", "rejected"]

_ASKED = frozenset({"This tool call requires confirmation, please approve or reject."})  # ADK
_REJECTED = frozenset(
    {
        "This tool call is rejected.",  # ADK
        "Tool execution was not approved.",  # OpenAI Agents SDK
        "The tool call was denied.",  # Pydantic AI
        "Error: Tool call invocation was rejected by user.",  # Microsoft Agent Framework
    }
)
# LangChain's middleware for approvals.
_REJECTED_CALL = re.compile(
    r"User rejected the tool call for [`'\"][^`'\"]+[`'\"](?: with id \S+| with reason: .*|\. .*)?", re.S
)
# LangGraph's own exceptions, and what they hold; and those of Strands, Pydantic AI and CrewAI.
_INTERRUPT = re.compile(r"\s*(?:(?:[\w.]+\.)?(?:Graph|Node)Interrupt\(|[\[(]*Interrupt\(value=)")
_RAISED = re.compile(
    r"\s*(?:[\w.]+\.)?(?:(?:Graph|Node)Interrupt|InterruptException|ApprovalRequired|CallDeferred|"
    r"HumanFeedbackPending)(?=[(:\s]|$)"
)
_INTERRUPTED = "__interrupt__"  # where LangGraph returns what it asks a person


@lru_cache(maxsize=4096)
def snake_case(name: str) -> str:
    """Return a name in lower case, its words joined by underscores."""
    return _SEPARATOR.sub("_", _UPPER.sub("_", name)).strip("_").lower()


@lru_cache(maxsize=4096)
def _role(field: str) -> _Role:
    name = snake_case(field)
    if name in FAILURES:
        return "failure"
    if name in SUCCESSES:
        return "success"
    if name in STATUSES or name.endswith(tuple(f"_{status}" for status in STATUSES)):
        return "status"
    if _DOUBT.search(name):
        return "doubt"
    return "known" if name in _KNOWN else "other"


@lru_cache(maxsize=1024)
def _telling(fields: tuple[str, ...]) -> tuple[tuple[str, _Role], ...]:
    """Return the fields that may tell something, with their roles."""
    return tuple((field, role) for field in fields if (role := _role(field)) != "known")


def is_mark(field: str) -> bool:
    """Return whether a field of this name may tell how a call ended."""
    return _role(field) not in ("known", "other")


def mark_of(fields: Mapping[str, Any], content: Any = ...) -> Mark | None:
    """Return what the fields beside a result say of the call; None where they say nothing.

    A field of `FAILURES` with a value is a failure. A status with a word on neither list, a value in a field
    whose name tells of errors and is not on the list, and an empty `content` beside a field that is not known
    leave it unknown.
    """
    found: Mark | None = None
    others = False
    for field, role in _telling(tuple(fields)):
        value = fields[field]
        if role == "other":
            others = others or not _says_nothing(value)
            continue
        mark = _mark(role, value, field)
        if mark == "failed":
            return mark
        if found != "unknown" and mark is not None:
            found = mark
    if found is None and others and content is not ... and _says_nothing(content):
        return "unknown"
    return found


def _mark(role: _Role, value: Any, field: str) -> Mark | None:
    if role == "failure":
        if not _says_nothing(value):
            return "failed"
        return "succeeded" if value is False and snake_case(field) == "is_error" else None
    if role == "success":
        word = value.lower() if isinstance(value, str) else value
        if word is True or word == "true":
            return "succeeded"
        return "failed" if word is False or word == "false" else None
    if role == "doubt":
        return None if _says_nothing(value) else "unknown"
    return _mark_of_status(value)


def _mark_of_status(value: Any) -> Mark | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        return "unknown"
    word = snake_case(value)
    if word in FAILURE_WORDS:
        return "failed"
    if word in SUCCESS_WORDS:
        return "succeeded"
    return None if word in _BEFORE else "unknown"


def _says_nothing(value: Any) -> bool:
    """Return whether a value is null, false, 0 or empty."""
    if isinstance(value, str):
        return value.strip().lower() in _NEVER
    return not value if isinstance(value, list | dict | tuple) else value in _NEVER


def failed_by_data(result: Any) -> bool:
    """Return whether what a tool returned says that it failed, in the few ways that tools of all kinds have.

    These are `{"status": "error"}`, a value as `error`, `isError`, and false as `success` or `ok`.
    """
    if not isinstance(result, dict):
        return False
    status = result.get("status")
    return (
        (isinstance(status, str) and status.lower() in _DATA_WORDS)
        or bool(result.get("error"))
        or True in (result.get("isError"), result.get("is_error"))
        or result.get("success") is False
        or result.get("ok") is False
    )


_DATA_WORDS = frozenset({"error", "failed", "failure"})


def approval_of(result: Any) -> Approval | None:
    """Return whether a call waits for approval or was rejected, by its result (JSON); None if neither.

    That it was approved shows only where it was asked for before.
    """
    if isinstance(result, dict):
        if result.get("type") == "execution-denied":  # Vercel's AI SDK
            return "rejected"
        if _INTERRUPTED in result:
            return "asked"
        result = result.get("error") if len(result) == 1 else None
    if not isinstance(result, str):
        return None
    if result in _ASKED or _INTERRUPT.match(result):
        return "asked"
    return "rejected" if result in _REJECTED or _REJECTED_CALL.fullmatch(result) else None


def is_interruption(said: Any) -> bool:
    """Return whether an exception's type or message, or an error's text, says that a person is asked."""
    return isinstance(said, str) and bool(_RAISED.match(said) or _INTERRUPT.match(said))


def is_interrupted(span: Span, error: str | None) -> bool:
    """Return whether a tool's span ended to wait for a person, by what it raised or by its error."""
    raised = (event["attributes"] for event in span.events if event.get("name") == "exception")
    said = [one.get(f"exception.{key}") for one in raised for key in ("type", "message")]
    own = (error, span.status_message, span.attributes.get(semconv.ERROR_TYPE))
    return any(map(is_interruption, (*said, *own)))
