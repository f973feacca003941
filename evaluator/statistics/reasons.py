"""The reason of a verdict without what differs from session to session: arguments and values."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TEXT = r'"(?:[^"\\]|\\.)*+"'
# A value that differs; it stops where another begins, so that the search is linear.
_WAS = re.compile(
    rf"expected (?:{_TEXT}|(?!, was |expected )[^;\"])*+, was "
    rf"(?:(not set)|(?:{_TEXT}|(?!expected | \(failed)[^;\"])*+)"
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
# Calls in place of others: the last "missing" before them, so that the search is linear.
_BEYOND = re.compile(r"(missing: (?:(?!missing: )[^;])*+); not expected: ([^;]*)")
_OF_A_TURN = re.compile(r"\n +expected: (?:\[(['\w, ]*)\])?(?:.|\n)*")  # what a test of pytest expected
_FAILED = re.compile(r" \(failed(?:: \w+)?\)")  # after the name of a call
_BETWEEN = re.compile("[,;:]")  # names of calls
_RAISED = re.compile(r"( without an answer: \w{1,80}): (?:.|\n){0,1500}? \([^()\s]{1,300}:\d+\)(?=;|$)")
_VALUE = re.compile(r"\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+|\d{3,}")  # not the number of a turn or a step
_LIST_OF_FAILED = re.compile(r"(: failed: )([\w.-]+(?:, [\w.-]+)+)$")


def what_went_wrong(reason: str) -> str:
    """Return a reason without arguments and values: `tool_usage_accuracy: missing: cancel_policy`.

    A value that differs is left with its path: `look_up(order.id): expected …, was …`. Of the calls beside
    missing ones only failed calls are kept, each once, with the type of its error.
    """
    reason = _RAISED.sub(r"\1", _OF_A_TURN.sub(_with_expected, reason))
    reason = _WAS.sub(_without_values, reason)
    names = _BEYOND.sub(_with_failed, "".join(_outside_of_json(reason)))
    text = " ".join(_VALUE.sub("…", _QUOTED.sub("…", names)).split())
    return _LIST_OF_FAILED.sub(lambda found: found[1] + ", ".join(sorted({*found[2].split(", ")})), text)


def _with_expected(found: re.Match[str]) -> str:
    """Return the names of the tools that a turn expected, if it is about them."""
    return f": expected {found[1].replace(chr(39), '')}" if found[1] else ""


def _without_values(found: re.Match[str]) -> str:
    """Return a value that differs without the values; that it is not set is what went wrong."""
    return f"expected …, was {found[1] or '…'}"


def _with_failed(found: re.Match[str]) -> str:
    """Return what is missing, and the calls beside it that failed."""
    failed: dict[str, None] = {}
    end = 0
    for one in _FAILED.finditer(found[2]):
        name = _BETWEEN.split(found[2][end : one.start()])[-1].strip()
        end = one.end()
        if name:
            failed[name + one[0]] = None
    return "; ".join([found[1], *([", ".join(failed)] if failed else [])])


def _outside_of_json(text: str) -> Iterator[str]:
    """Yield the characters of a text that are not within the brackets of an object or a list."""
    depth, is_text, is_escaped = 0, False, False
    for character in text:
        if depth and is_text:
            is_text = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif depth and character == '"':
            is_text = True
        elif character in "{[":
            depth += 1
        elif depth and character in "}]":
            depth -= 1
        elif not depth:
            yield character
