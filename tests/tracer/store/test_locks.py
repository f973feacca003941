"""Locks between processes: an attempt is repeated while it is locked, and one process holds a file's lock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from spangrade import StoreError, StoreLockedError
from spangrade.tracer.store.locks import lock_file, retry_while_locked


def test_an_attempt_is_repeated_while_it_is_locked() -> None:
    errors = [StoreLockedError("held"), StoreLockedError("held")]

    def attempt() -> str:
        if errors:
            raise errors.pop()
        return "open"

    assert retry_while_locked(attempt, 3600.0) == "open"


@pytest.mark.parametrize(("wait_s", "stopped"), [(0.0, False), (3600.0, True)])
def test_the_error_is_raised_when_time_is_up_or_stop_is_set(wait_s: float, stopped: bool) -> None:
    attempts = 0
    stop = threading.Event()
    if stopped:
        stop.set()

    def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise StoreLockedError("held")

    with pytest.raises(StoreLockedError, match="held"):
        retry_while_locked(attempt, wait_s, stop)
    assert attempts == 1


def test_any_other_error_is_raised_at_once() -> None:
    def attempt() -> None:
        raise StoreError("not a database")

    with pytest.raises(StoreError, match="not a database"):
        retry_while_locked(attempt, 3600.0)


def test_a_file_lock_excludes_others_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = lock_file(path)
    assert held is not None
    assert lock_file(path) is None
    os.close(held)
    again = lock_file(path)
    assert again is not None
    os.close(again)


def test_a_file_lock_is_freed_when_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys; from pathlib import Path; from spangrade.tracer.store.locks import lock_file\n"
        "print(lock_file(Path(sys.argv[1])) is not None, flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert lock_file(path) is None
        other.kill()
        other.wait()
        held = lock_file(path)
        assert held is not None
        os.close(held)
