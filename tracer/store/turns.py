"""Turns of the parts of one process at a database: in the order in which they ask, without polling."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spangrade.tracer.errors import StoreLockedError

_OPEN_FOR_S = 2.0  # in a row, then the file is closed for others
_CLOSED_FOR_S = 0.12  # a process that waits for it tries every 0.05 s
_CHECK_EVERY_S = 0.1  # whether a part that waits is to stop

_taken: dict[Path, Turns] = {}


class Turns:
    """Who of one process has a database open: one at a time, the others in the order in which they asked.

    After two seconds without a pause the file stays closed for a moment, for other processes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._is_taken = False
        self._busy_since_s: float | None = None

    def take(self, wait_s: float, stop: threading.Event | None = None) -> None:
        """Wait for the turn. Raises StoreLockedError after `wait_s` seconds, or once `stop` is set."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                self._busy_since_s = time.monotonic()
                return
            mine = threading.Event()
            self._waiting.append(mine)
        give_up_s = time.monotonic() + wait_s
        while not mine.wait(min(_CHECK_EVERY_S, max(0.0, give_up_s - time.monotonic()))):
            if time.monotonic() < give_up_s and not (stop is not None and stop.is_set()):
                continue
            with self._lock:
                if not mine.is_set():
                    self._waiting.remove(mine)
                    problem = "another part of this process has it open: try again"
                    raise StoreLockedError(f"{self._path}: {problem}")
        with self._lock:
            since_s, self._busy_since_s = self._busy_since_s, self._busy_since_s or time.monotonic()
        if since_s is not None and time.monotonic() - since_s > _OPEN_FOR_S:
            time.sleep(_CLOSED_FOR_S)
            with self._lock:
                self._busy_since_s = time.monotonic()

    def give(self) -> None:
        """Hand the turn to the next that waits."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False
                self._busy_since_s = None


@contextmanager
def taking_turns(path: Path) -> Iterator[None]:
    """Let all parts of this process take turns at a database file until the block ends."""
    key = path.resolve()
    _taken[key] = Turns(path)
    try:
        yield
    finally:
        del _taken[key]


def turns_at(path: Path) -> Turns | None:
    """Return the turns at a database file, None if its parts find out for themselves."""
    return _taken.get(path.resolve()) if _taken else None
