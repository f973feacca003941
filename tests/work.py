"""How much work a function does, in executed lines: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def lines_executed(function: Callable[[], object]) -> int:
    """Return how many lines of Python a call executes."""
    lines = 0

    def trace(frame: object, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines
