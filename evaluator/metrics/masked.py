"""Recorded values that redaction masked: whether the masked part may be an expected value."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from spangrade.evaluator.metrics.reply_texts import contains
from spangrade.tracer.base.canonical_json import dumps

if TYPE_CHECKING:  # few recordings are masked
    from spangrade.evaluator.session import RequestedCall, ToolInteraction
    from spangrade.tracer.redaction import Redaction

_MASK = re.compile(r"\[([a-z][a-z_ -]*)(?::[0-9a-f]{16})?\]")
_WHOLE = re.compile(r"\[(?:redacted|deep)(?::[0-9a-f]{16})?\]")
_REMOVED = "[redacted]"
MASKED = "what was recorded is masked"  # begins the reason of what cannot be compared


@cache
def _redaction() -> Redaction:
    from spangrade.tracer.redaction import Redaction

    return Redaction("mask")


def has_mask(value: Any) -> bool:
    """Return whether a JSON value has a masked text in it."""
    waiting = [value]
    while waiting:  # it may be nested without end
        one = waiting.pop()
        if isinstance(one, str):
            if "[" in one and _MASK.search(one):
                return True
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)
    return False


def compared_arguments(call: ToolInteraction | RequestedCall) -> Any:
    """Return a call's arguments, with masks for the values that were removed: they may be any."""
    return _with_masks(call.input_arguments) if call.arguments_removed else call.input_arguments


def _with_masks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_masks(one) for key, one in value.items()}
    if isinstance(value, list):
        return list(map(_with_masks, value))
    return _REMOVED if value is None else value


def may_be_masked(expected: Any, actual: Any) -> bool:
    """Return whether a recorded value may be the expected value after redaction.

    The reference itself is not masked to match: two e-mail addresses would be equal.
    """
    if not isinstance(actual, str) or not _MASK.search(actual):
        return False
    if _WHOLE.fullmatch(actual):
        return True
    value = _redaction().value(expected)
    text = value if isinstance(value, str) else dumps(value)
    return value is not expected and _plain(text) == _plain(actual)


def may_contain(text: str, actual: str) -> bool:
    """Return whether a text that redaction masks may have been in a recorded reply."""
    if not _MASK.search(actual):
        return False
    masked = _redaction().value(text)
    return masked != text and contains(_plain(actual), _plain(masked))


def _plain(text: str) -> str:
    return _MASK.sub(r"[\1]", text)
