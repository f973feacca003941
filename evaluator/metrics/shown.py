"""Differences in the words of a reason: the place, the expected value and the actual one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import Any

from spangrade.converters.datasets.forms import ANY, described, word_of
from spangrade.evaluator.metrics.masked import MASKED, may_be_masked
from spangrade.evaluator.metrics.matching import MISSING, AnyOf, Path, ValueDifference

_LONGEST = 100  # characters of a value
_BEFORE = 20  # characters of two long texts that are equal before they differ


def path_text(path: Path) -> str:
    """Return a path as `address.city` or `items[0].id`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def difference_text(where: str, difference: ValueDifference) -> str:
    """Return a difference as `order.items[0].sku: expected "A1", was "A2"`."""
    expected, actual = difference.expected, difference.actual
    if isinstance(expected, str) and isinstance(actual, str):
        expected, actual = _around(expected, actual)
    was = "not set" if actual is MISSING else _shown(actual)
    if difference.undecided:
        masked = may_be_masked(difference.expected, difference.actual)
        why = MASKED if masked else "the search took longer than a second"
        return f"{where}: expected {_shown(expected)}, was {was}; {why}"
    return f"{where}: expected {_shown(expected)}, was {was}"


def _around(expected: str, actual: str) -> tuple[str, str]:
    """Return two texts, long ones from shortly before the place where they differ."""
    if max(len(expected), len(actual)) <= _LONGEST:
        return expected, actual
    same = takewhile(lambda pair: pair[0] == pair[1], zip(expected, actual, strict=False))
    start = max(sum(1 for _ in same) - _BEFORE, 0)
    if not start:
        return expected, actual
    return f"…{expected[start:]}", f"…{actual[start:]}"


def _shown(value: Any) -> str:
    if value is MISSING:
        return "nothing"
    if isinstance(value, AnyOf) or (isinstance(value, dict) and word_of(value) == ANY):
        return _alternatives(value.values if isinstance(value, AnyOf) else value[ANY])
    text = described(value)
    if len(text) <= _LONGEST:
        return text
    if isinstance(value, str):
        return f'{text[:_LONGEST]}…"'
    return f"a list of {len(value)}" if isinstance(value, list | tuple) else _kind(value)


def _alternatives(values: Sequence[Any]) -> str:
    """Return the first values of several, as many as there is room for, and the number of the others."""
    shown = [_shown(value) for value in values]
    ends = accumulate(len(text) for text in shown)
    number = max(1, sum(end <= _LONGEST for end in ends))
    rest = [f"{len(shown) - number} more"] if len(shown) > number else []
    return " or ".join([*shown[:number], *rest]) or "a value that was not found"


def _kind(value: Any) -> str:
    if not isinstance(value, dict):
        return type(value).__name__
    word = word_of(value)
    return f"an object of {len(value)} keys" if word is None else f"what its {word} says"
