"""One lock of the operating system per key: processes share it, and a crash frees it at once."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.base.file_locks import lock
from spangrade.tracer.base.file_modes import file_mode, folder_mode


class KeyLocks:
    """Locks whose files are in one folder. A file is there only while its lock is held or waited for.

    A crash frees a lock but leaves its file: the next process to use the folder deletes it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_prepared = False

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of a key, a file's name; wait while another task or process holds it.

        Raises:
            StoreError: the lock's file cannot be created.
        """
        path = self._folder / key
        try:
            self._prepare()
            try:
                descriptor = _lock(path)
            except BlockingIOError:
                descriptor = await _lock_in_thread(path)
        except OSError as error:
            raise StoreError(f"lock {path}: {error}") from error
        try:
            yield
        finally:
            _unlock(path, descriptor)

    def _prepare(self) -> None:
        """Create the folder, and delete the files of locks that a crash has freed."""
        if self._is_prepared:
            return
        self._folder.mkdir(mode=folder_mode(), parents=True, exist_ok=True)
        for path in list(self._folder.iterdir()):
            with suppress(BlockingIOError):  # it is held
                _unlock(path, _lock(path))
        self._is_prepared = True


def _lock(path: Path, *, wait: bool = False) -> int:
    """Return a descriptor with the lock of a file; without `wait`, raise BlockingIOError if it is held."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, file_mode())
        try:
            if not lock(descriptor, wait=wait):
                raise BlockingIOError
        except BaseException:
            os.close(descriptor)
            raise
        if _is_file_at(path, descriptor):
            return descriptor
        os.close(descriptor)  # its holder has deleted the file: the lock is now that of another one


def _unlock(path: Path, descriptor: int) -> None:
    try:
        path.unlink(missing_ok=True)  # while it is locked: those waiting for it notice, and create a new one
    except PermissionError:  # Windows deletes no file that is open, neither here nor in those waiting for it
        os.close(descriptor)
        with suppress(PermissionError):
            path.unlink(missing_ok=True)
    else:
        os.close(descriptor)


def _is_file_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))  # noqa: PTH116 (beside fstat)
    except FileNotFoundError:
        return False


async def _lock_in_thread(path: Path) -> int:
    """Wait for a lock in a thread of its own: in a pool, waiting could keep the holder from its work."""
    result: Future[int] = Future()

    def wait() -> None:
        try:
            descriptor = _lock(path, wait=True)
        except OSError as error:
            if result.set_running_or_notify_cancel():
                result.set_exception(error)
            return
        if result.set_running_or_notify_cancel():
            result.set_result(descriptor)
        else:  # nobody waits for it any more
            _unlock(path, descriptor)

    threading.Thread(target=wait, name="spangrade-lock", daemon=True).start()  # it does not delay the exit
    try:
        return await asyncio.wrap_future(result)
    except asyncio.CancelledError:
        if not result.cancel() and result.exception() is None:  # it came at the same moment
            _unlock(path, result.result())
        raise
