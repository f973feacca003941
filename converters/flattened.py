"""Lists that attributes spell out one value at a time: `llm.input_messages.0.message.role` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def numbered(a: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the members of the list at `prefix` (which ends with a dot), in the order of their numbers.

    Each has its values by what follows the number; that may spell out lists of its own.
    """
    found: dict[int, dict[str, Any]] = {}
    start = len(prefix)
    for key, value in a.items():
        if key.startswith(prefix):
            number, _, rest = key[start:].partition(".")
            if number.isdecimal() and number.isascii():
                found.setdefault(int(number), {})[rest] = value
    return [found[number] for number in sorted(found)]
