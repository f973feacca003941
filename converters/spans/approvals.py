"""How frameworks say that a call waits for a person's approval, was interrupted for it, or was rejected.

They are a framework's own words for a tool that did not run, compared as a whole, and its own exceptions: a
text of a tool itself decides nothing.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from spangrade.tracer import semconv
from spangrade.tracer.span import Span

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
