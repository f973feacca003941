"""Locks of the operating system on open files: `flock`, or `msvcrt.locking` on Windows.

A lock lasts until its descriptor is closed, and a crash frees it. On Windows it is on one byte, beyond the
end of any file that is locked, so that the file itself can be read and written.
"""

from __future__ import annotations

import os
import time
from typing import Any

_PLACE = 0x7FFF_FFFE
_RETRY_S = 0.05


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
