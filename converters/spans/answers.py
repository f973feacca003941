"""Calls by which a model gives its answer: they run nothing, and are the reply."""

from __future__ import annotations

# smolagents and others; pydantic-ai, for an output of one type; ADK; LiteLLM, for an answer of a schema.
_NAMES = frozenset({"final_answer", "final_result", "set_model_response", "json_tool_call"})
_OF_TYPES = "final_result_"  # pydantic-ai's, for an output of several types: the type's name follows


def is_answer(name: str) -> bool:
    """Return whether a call of this name is the agent's answer and no call of a tool."""
    return name in _NAMES or (name.startswith(_OF_TYPES) and len(name) > len(_OF_TYPES))
