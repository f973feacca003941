"""Locks between processes: wait for a locked database, and claim a file for this process alone.

They are the operating system's, on open files: `flock`, or `msvcrt.locking` on Windows, where it is on one
byte beyond the end of any file that is locked, so that the file itself can be read and written. A lock lasts
until its descriptor is closed, and a crash frees it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from spangrade.tracer.base.errors import StoreLockedError
from spangrade.tracer.base.file_modes import file_mode

T = TypeVar("T")

_RETRY_EVERY_S = 0.05
_PLACE = 0x7FFF_FFFE
_RETRY_S = 0.05


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
