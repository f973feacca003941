"""Verdicts in a SQLite file that processes share: the same question is paid for once.

While it is asked, others wait at a lock of the operating system: one per key, which a crash frees at once.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from spangrade.evaluator.judge.protocol import Judgement
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.base.file_modes import cache_folder, file_mode, folder_mode
from spangrade.tracer.store.locks import lock
from spangrade.tracer.store.sql import statement

FILE_VARIABLE = "SPANGRADE_JUDGE_CACHE"
_FILE_NAME = "judge.sqlite"
_BUSY_TIMEOUT_S = 60.0  # a write takes milliseconds; many processes may queue for it

# A file's locks are lost when the process closes any descriptor of it, so that nobody else may open the file
# while it is created.
_creating = threading.Lock()

_Result = TypeVar("_Result")


def default_cache_path() -> Path:
    """Return `$SPANGRADE_JUDGE_CACHE`, else `judge.sqlite` in the user's cache folder (see `cache_folder`).

    Raises:
        InputError: the user has no home folder.
    """
    if file := os.environ.get(FILE_VARIABLE):
        return Path(file)
    return cache_folder() / _FILE_NAME


class VerdictCache:
    """A file of verdicts, created when it is first used; for its owner alone unless a umask is set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locks = KeyLocks(path.with_name(f"{path.name}.locks"))

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of a key, which one task of all processes does at a time; wait for it if necessary.

        Raises:
            StoreError: the lock's file cannot be created.
        """
        async with self._locks.hold(key):
            yield

    def get(self, key: str) -> Judgement | None:
        """Return the verdict of a key, None if there is none: 0.1 ms, half of what a thread would take.

        It waits while another process writes.

        Raises:
            StoreError: the file cannot be opened or read.
        """

        def read(connection: sqlite3.Connection) -> Judgement | None:
            row = connection.execute(statement("get_verdict", __package__), [key]).fetchone()
            if row is None:
                return None
            passed, *rest = row
            return replace(Judgement(None if passed is None else bool(passed), *rest), cached=True)

        return self._with_connection(read)

    async def put(self, key: str, verdict: Judgement, judge: str, prompt_version: str, question: str) -> None:
        """Keep a verdict; returns when it is written. `question` is JSON text.

        Raises:
            StoreError: the file cannot be opened or written.
        """
        row = asdict(verdict) | {
            "key": key,
            "judge": judge,
            "prompt_version": prompt_version,
            "question": question,
        }

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(statement("put_verdict", __package__), row)

        await asyncio.to_thread(self._with_connection, write)

    def _with_connection(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Open the file, execute one statement and close it, so that a fork inherits nothing.

        In the rollback mode, which keeps to one file and needs no shared memory, four processes with 400
        questions in common take 3.9 s, in WAL mode 3.2 s.
        """
        try:
            self._create()
            with closing(sqlite3.connect(self.path, _BUSY_TIMEOUT_S, isolation_level=None)) as connection:
                connection.execute(statement("verdicts", __package__))
                return work(connection)
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"judge cache {self.path}: {error}; delete the file, or set {FILE_VARIABLE} to another one"
            ) from error
        except OSError as error:
            raise StoreError(f"judge cache {self.path}: {error}") from error

    def _create(self) -> None:
        with _creating:
            if self.path.exists():
                return
            self.path.parent.mkdir(mode=folder_mode(), parents=True, exist_ok=True)
            self.path.touch(file_mode())


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
