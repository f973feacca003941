"""Functions that tests run in other processes, which cannot import a test file."""

from __future__ import annotations

import os
import signal


def die_at_3(number: int) -> int:
    """Return the number; kill the process if it is 3."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail_at_3(number: int) -> int:
    """Return the number; raise ValueError if it is 3."""
    if number == 3:
        raise ValueError("three")
    return number
