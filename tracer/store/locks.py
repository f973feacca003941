"""Locks between processes: wait for a locked database, and claim a file for this process alone.

They are the operating system's, on open files: `flock`, or `msvcrt.locking` on Windows, where it is on one
byte beyond the end of any file that is locked, so that the file itself can be read and written. A lock lasts
until its descriptor is closed, and a crash frees it. The parts of one process take turns at a database, in
the order in which they ask, without polling.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from spangrade.tracer.base.errors import StoreLockedError
from spangrade.tracer.base.file_modes import file_mode

T = TypeVar("T")

_RETRY_EVERY_S = 0.05
_PLACE = 0x7FFF_FFFE
_RETRY_S = 0.05
_OPEN_FOR_S = 2.0  # in a row, then the file is closed for others
_CLOSED_FOR_S = 0.12  # a process that waits for it tries every 0.05 s
_CHECK_EVERY_S = 0.1  # whether a part that waits is to stop

_taken: dict[Path, Turns] = {}


def retry_while_locked(attempt: Callable[[], T], wait_s: float, stop: threading.Event | None = None) -> T:
    """Return the result of `attempt`; while it raises StoreLockedError, try it again.

    Raises the last StoreLockedError after `wait_s` seconds, or as soon as `stop` is set.
    """
    give_up_s = time.monotonic() + wait_s
    stop = stop or threading.Event()
    while True:
        try:
            return attempt()
        except StoreLockedError:
            if time.monotonic() >= give_up_s or stop.wait(_RETRY_EVERY_S):
                raise


def lock_file(path: Path) -> int | None:
    """Lock a file, created if necessary; return its descriptor, or None if another process has locked it.

    The lock lasts until the descriptor is closed; a crash frees it too.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, file_mode())
    if lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def is_same_file(descriptor: int, path: Path) -> bool:
    """Return whether an open file is the one at a path: it may have been removed or replaced."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


class FileLock:
    """A file that this process has locked. If the file is removed, `renew` locks a new one."""

    def __init__(self, path: Path) -> None:
        """Lock the file; raise StoreLockedError if another process has locked it."""
        self.path = path
        self._descriptor = self._lock()

    def _lock(self) -> int:
        while True:
            descriptor = lock_file(self.path)
            if descriptor is None:
                raise StoreLockedError(f"{self.path}: another process has locked it")
            if is_same_file(descriptor, self.path):
                return descriptor
            os.close(descriptor)

    def renew(self) -> None:
        """Lock the path again if its file was removed; raise StoreLockedError if another process has."""
        if not is_same_file(self._descriptor, self.path):
            removed, self._descriptor = self._descriptor, self._lock()
            os.close(removed)

    def close(self) -> None:
        """Unlock the file."""
        os.close(self._descriptor)


def lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file; return whether nobody else has locked it, with `wait` once that is so.

    Where the system has neither kind of lock, it returns True. Raises OSError if the file cannot be locked.
    """
    try:
        import fcntl  # here, for Windows has none
    except ModuleNotFoundError:
        return _lock_byte(descriptor, wait=wait)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _lock_byte(descriptor: int, *, wait: bool) -> bool:
    try:
        msvcrt: Any = __import__("msvcrt")  # it has no types but on Windows
    except ModuleNotFoundError:
        return True
    at = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        while True:
            os.lseek(descriptor, _PLACE, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            except PermissionError:
                if not wait:
                    return False
                time.sleep(_RETRY_S)
            else:
                return True
    finally:
        os.lseek(descriptor, at, os.SEEK_SET)


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
