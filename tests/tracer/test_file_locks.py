"""Locks on files by `flock`, by the locks of bytes that Windows has, and where a system has neither."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spangrade.tracer.store.locks import lock


class WindowsLocks:
    """What `msvcrt` does: a byte of a file, where the descriptor is, is locked by one descriptor at most.

    A lock of Windows ends with its descriptor; here the test says when that is.
    """

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.held: dict[tuple[int, int], int] = {}
        self.places: list[int] = []

    def locking(self, descriptor: int, mode: int, number: int) -> None:
        assert (mode, number) == (self.LK_NBLCK, 1)
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        self.places.append(place)
        if self.held.setdefault((os.fstat(descriptor).st_ino, place), descriptor) != descriptor:
            raise PermissionError(errno.EACCES, "Permission denied")

    def close(self, descriptor: int) -> None:
        self.held = {place: one for place, one in self.held.items() if one != descriptor}
        os.close(descriptor)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> WindowsLocks:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", made := WindowsLocks())
    return made


@pytest.fixture(params=["posix", "windows"])
def close(request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Return what closes a descriptor, on a system of each kind."""
    if request.param == "posix":
        return os.close
    made: WindowsLocks = request.getfixturevalue("windows")
    return made.close


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


def test_a_locked_file_can_be_locked_by_another_once_it_is_closed(
    tmp_path: Path, close: Callable[[int], None]
) -> None:
    path = tmp_path / "lock"
    path.write_text("ten bytes.")
    first, second = opened(path), opened(path)
    assert (lock(first), lock(second)) == (True, False)
    assert os.read(first, 100) == b"ten bytes."  # the descriptor is where it was
    waiting = threading.Thread(target=lock, args=(second,), kwargs={"wait": True})
    waiting.start()
    close(first)
    waiting.join(10)
    assert not waiting.is_alive()
    third = opened(path)
    assert not lock(third)
    close(second)
    assert lock(third)
    close(third)


def test_on_windows_the_byte_is_beyond_what_a_file_holds(tmp_path: Path, windows: WindowsLocks) -> None:
    descriptor = opened(tmp_path / "segment")
    os.write(descriptor, b"x" * 100_000)
    assert lock(descriptor)
    (place,) = windows.places
    assert 2**30 < place < 2**31
    windows.close(descriptor)


def test_a_system_without_locks_refuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", None)
    first, second = opened(tmp_path / "lock"), opened(tmp_path / "lock")
    assert (lock(first), lock(second, wait=True)) == (True, True)
    os.close(first)
    os.close(second)
