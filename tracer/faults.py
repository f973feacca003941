"""Faults of tools, for drills: what a tool does at its nth call in place of its own work."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

LATE_S = 5.0


class ToolFault(Exception):  # noqa: N818 (the name says what it is: raised on purpose)
    """The failure of a tool that a drill asks for."""


class Fault(NamedTuple):
    """What the nth `call` of a tool does, from 1.

    `kind` is `fails`, `times_out`, `late` (after `value` seconds), `empty`, `injection` (the result has the
    text `value` in it), or `other_customer` (the result is `value`).
    """

    tool: str
    call: int
    kind: str
    value: Any = None

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return, or raise, what the call does; for a coroutine function that is a coroutine."""
        if inspect.iscoroutinefunction(function):
            return self._run_async(function, args, kwargs)
        if self.kind == "late":
            time.sleep(self._late_s)
        return self._result(function(*args, **kwargs) if self._calls() else None)

    async def _run_async(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        if self.kind == "late":
            await asyncio.sleep(self._late_s)
        return self._result(await function(*args, **kwargs) if self._calls() else None)

    @property
    def _late_s(self) -> float:
        return LATE_S if self.value is None else float(self.value)

    def _calls(self) -> bool:
        """Return whether the tool itself runs; raise what it raises in the drill."""
        if self.kind == "fails":
            raise ToolFault(self.value or "the tool failed")
        if self.kind == "times_out":
            raise TimeoutError(self.value or "the tool did not answer in time")
        return self.kind in ("late", "injection")

    def _result(self, result: Any) -> Any:
        if self.kind != "injection":
            return result if self.kind == "late" else self.value
        if isinstance(result, dict):
            return {**result, "note": self.value}
        if isinstance(result, list):
            return [*result, self.value]
        return f"{result}\n{self.value}" if isinstance(result, str) else self.value


class Faults:
    """The faults of one conversation, whose calls are counted by tool."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = {(fault.tool, fault.call): fault for fault in faults}
        self._calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def next(self, tool: str) -> Fault | None:
        """Count a call of a tool; return its fault, None if it has none."""
        with self._lock:
            self._calls[tool] += 1
            return self._faults.get((tool, self._calls[tool]))
