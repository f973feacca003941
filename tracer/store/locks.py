"""Locks between processes: wait for a locked database, and claim a file for this process alone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from spangrade.tracer.errors import StoreLockedError
from spangrade.tracer.file_modes import file_mode

T = TypeVar("T")

_RETRY_EVERY_S = 0.05


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

    The lock lasts until the descriptor is closed; a crash frees it too. POSIX only.
    """
    import fcntl  # here, so that the store can be used where it does not exist

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, file_mode())
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
