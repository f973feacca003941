"""A disk that is full: for this process alone, or a file system of its own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def full_disk(free_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: a write fails as on a full disk.

    Python keeps the bytecode of what is imported meanwhile, cut, for everyone after it: it writes none.
    """
    before, writes_none = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handled)
        sys.dont_write_bytecode = writes_none


class Disk:
    """A file system in a folder, which can be filled with other files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._other = folder / "other files"

    def fill(self, free_pages: int = 0) -> None:
        """Fill it, but for a number of pages."""
        state = os.statvfs(self.folder)
        with self._other.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, (state.f_bavail - free_pages) * state.f_frsize)

    def make_room(self) -> None:
        """Delete the other files."""
        self._other.unlink()


@contextmanager
def small_disk(folder: Path, size_mb: int) -> Iterator[Disk]:
    """Mount a small file system at a new folder; without the right to do so, the test is skipped."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", folder]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs root, and the right to mount a tmpfs")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", folder], check=True)
