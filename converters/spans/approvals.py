"""Results by which frameworks say that a call waits for a person's approval, or that it was rejected.

They are a framework's own words for a tool that did not run, compared as a whole: a text of a tool itself
decides nothing.
"""

from __future__ import annotations

import re
from typing import Any, Literal

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


def approval_of(result: Any) -> Approval | None:
    """Return whether a call waits for approval or was rejected, by its result (JSON); None if neither.

    That it was approved shows only where it was asked for before.
    """
    if isinstance(result, dict):
        if result.get("type") == "execution-denied":  # Vercel's AI SDK
            return "rejected"
        result = result.get("error") if len(result) == 1 else None
    if not isinstance(result, str):
        return None
    if result in _ASKED:
        return "asked"
    return "rejected" if result in _REJECTED or _REJECTED_CALL.fullmatch(result) else None
