"""A value that differs a little: the next number, another day, another id, another unit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from random import Random
from typing import Any

_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_UNIT = re.compile(r"(?<=\d)(\s?)(kg|km|cm|mm|ms|min|EUR|USD|GBP|%|°C|°F|lb|mi|g|m|s|h|l)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_OTHER_UNIT = {
    "kg": "g", "g": "kg", "km": "mi", "mi": "km", "cm": "mm", "mm": "cm", "m": "cm", "ms": "s", "s": "ms",
    "min": "h", "h": "min", "eur": "USD", "usd": "EUR", "gbp": "EUR", "°c": "°F", "°f": "°C", "lb": "kg",
    "l": "ml",
}  # fmt: skip

_DEEPEST = 50  # levels

Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the texts, numbers and truth values in a JSON value, each with the keys that lead to it.

    What is nested more than 50 levels deep is left out.
    """
    if len(path) > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif value is not None and value != "":
        yield path, value


def with_leaf(value: Any, path: Path, leaf: Any) -> Any:
    """Return a JSON value with another leaf at a path."""
    if not path:
        return leaf
    first, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        return {key: with_leaf(item, rest, leaf) if key == first else item for key, item in value.items()}
    return [with_leaf(item, rest, leaf) if index == first else item for index, item in enumerate(value)]


def changed(value: Any, random: Random) -> Any:
    """Return a value of the same kind that differs a little, drawn by chance where there is a choice."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + random.choice((1, -1, 10))
    if isinstance(value, float):
        return value + random.choice((1.0, -1.0, 0.5))
    return changed_text(value, random)


def changed_text(text: str, random: Random) -> str:
    """Return a text with another date, unit or number or, if it has none, without its last letter."""
    if day := _DATE.search(text):
        return text[: day.start()] + _next_day(day) + text[day.end() :]
    if (unit := _UNIT.search(text)) and unit[2].lower() in _OTHER_UNIT and random.random() < 0.5:
        return text[: unit.start(2)] + _OTHER_UNIT[unit[2].lower()] + text[unit.end(2) :]
    if numbers := list(_NUMBER.finditer(text)):
        return with_other_number(text, random.choice(numbers))
    return text[:-1] if len(text.strip()) > 1 else f"{text}{text}"


def with_other_number(text: str, number: re.Match[str]) -> str:
    """Return a text in which the last digit of a number is the next one."""
    digits = number[0][:-1] + str((int(number[0][-1]) + 1) % 10)
    return text[: number.start()] + digits + text[number.end() :]


def number_in(text: str) -> re.Match[str] | None:
    """Return the first number in a text."""
    return _NUMBER.search(text)


def _next_day(match: re.Match[str]) -> str:
    try:
        return (date(*map(int, match.groups())) + timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return f"{match[1]}-{match[2]}-{(int(match[3]) + 1) % 100:02}"
