"""Spans of LlamaIndex's workflows of agents: names in the repr of events, and wrapped prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans.values import json_object, text

SCOPE = "openinference.instrumentation.llama_index"
_STEP = ".run_agent_step"
_AGENT = re.compile(r"current_agent_name='((?:[^'\\]|\\.)+)'\)$")
# https://github.com/run-llama/llama_index: DEFAULT_STATE_PROMPT of its agents' workflows.
_WITH_STATE = re.compile(r"Current state:\n.*?\n\nCurrent message:\n(.*)\n", re.DOTALL)
_OBJECT = re.compile(r"<[\w.]+ object at 0x[0-9a-f]+>")


def agent_of_step(span_name: str, attributes: Mapping[str, Any]) -> str | None:
    """Return the agent that a span of a step of a workflow runs; None for every other span."""
    if not span_name.endswith(_STEP):
        return None
    event = text(json_object(attributes.get("input.value")).get("ev"))
    found = _AGENT.search(event[-300:]) if event else None
    return found[1] if found else None


def without_state(message: dict[str, Any]) -> dict[str, Any]:
    """Return a user's message without the state in which LlamaIndex wraps it."""
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, str):
        return message
    found = _WITH_STATE.fullmatch(content)
    return {**message, "content": found[1]} if found else message


def without_objects(arguments: Any) -> Any:
    """Return a tool's arguments without the objects that LlamaIndex adds, such as the workflow's context."""
    if not isinstance(arguments, dict):
        return arguments
    return {
        name: value
        for name, value in arguments.items()
        if not (isinstance(value, str) and _OBJECT.fullmatch(value))
    }
