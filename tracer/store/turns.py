"""Turns of the parts of one process at a database: in the order in which they ask, without polling."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spangrade.tracer.base.errors import StoreLockedError

_OPEN_FOR_S = 2.0  # in a row, then the file is closed for others
_CLOSED_FOR_S = 0.12  # a process that waits for it tries every 0.05 s
_CHECK_EVERY_S = 0.1  # whether a part that waits is to stop

_taken: dict[Path, Turns] = {}


class Turns:
    """Lets the parts of one process open a database one at a time, in the order in which they ask.

    After two seconds without a pause the file stays closed for a moment, for other processes. The part that
    derives holds `deriving`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._is_taken = False
        self._busy_since_s = 0.0
        self._free_since_s = float("-inf")
        self.deriving = threading.Lock()

    def take(self, wait_s: float, stop: threading.Event | None = None) -> None:
        """Wait for the turn. Raises StoreLockedError after `wait_s` seconds, or once `stop` is set."""
        with self._lock:
            mine = threading.Event()
            if self._is_taken:
                self._waiting.append(mine)
            else:
                self._is_taken = True
                if time.monotonic() - self._free_since_s >= _CLOSED_FOR_S:
                    self._busy_since_s = time.monotonic()
                mine.set()
        give_up_s = time.monotonic() + wait_s
        while not mine.wait(min(_CHECK_EVERY_S, max(0.0, give_up_s - time.monotonic()))):
            if time.monotonic() < give_up_s and not (stop is not None and stop.is_set()):
                continue
            with self._lock:
                if not mine.is_set():
                    self._waiting.remove(mine)
                    problem = "another part of this process has it open: try again"
                    raise StoreLockedError(f"{self._path}: {problem}")
        if time.monotonic() - self._busy_since_s > _OPEN_FOR_S:
            time.sleep(_CLOSED_FOR_S)
            self._busy_since_s = time.monotonic()

    def give(self) -> None:
        """Hand the turn to the next that waits."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False
                self._free_since_s = time.monotonic()


@contextmanager
def taking_turns(path: Path) -> Iterator[None]:
    """Let all parts of this process take turns at a database file until the block ends."""
    key = path.resolve()
    _taken[key] = Turns(path)
    try:
        yield
    finally:
        del _taken[key]


@contextmanager
def deriving(path: Path, stop: threading.Event) -> Iterator[None]:
    """Wait until no other part of this process derives, or `stop` is set; none does until the block ends.

    Each of two that derive the same spans makes useless what the other has observed of them.
    """
    turns = turns_at(path)
    has_lock = False
    while turns is not None and not has_lock and not stop.is_set():
        has_lock = turns.deriving.acquire(timeout=_CHECK_EVERY_S)
    try:
        yield
    finally:
        if turns is not None and has_lock:
            turns.deriving.release()


def turns_at(path: Path) -> Turns | None:
    """Return the turns at a database file, None if nobody takes turns at it."""
    return _taken.get(path.resolve()) if _taken else None
