"""The bounded queue between the receiver and the database: segments on disk, one sync for many requests."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from spangrade.tracer.base.errors import StoreLockedError
from spangrade.tracer.base.file_modes import folder_mode
from spangrade.tracer.receiver.limits import unavailable
from spangrade.tracer.store.locks import FileLock
from spangrade.tracer.store.spool import Segment, folder_of, lock_of_receiver, waiting

_log = logging.getLogger("spangrade")
_SEGMENT_BYTES = 32 * 2**20  # what the loader has in memory at once


class SpoolQueue:
    """Frames on their way to the database. Raises StoreLockedError if another receiver uses the spool."""

    def __init__(self, db: Path, limit: int) -> None:
        self._db = db
        self._folder = folder_of(db)
        self._limit = limit
        self._folder.mkdir(mode=folder_mode(), exist_ok=True)
        try:
            self._lock = FileLock(lock_of_receiver(self._folder))
        except StoreLockedError as error:
            raise StoreLockedError(
                f"{self._folder}: another receiver is writing here: stop it first"
            ) from error
        self._segment: Segment | None = None
        self._segment_lock = threading.Lock()
        self._unwritten: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1, "spool")
        self._sealed_bytes = 0
        self._since_s: dict[str, float] = {}  # sealed segments, by the clock that nobody sets
        self.measure()

    def full(self) -> bool:
        """Return whether the spool has reached its limit."""
        return self.size() >= self._limit

    def size(self) -> int:
        """Return how many bytes the database does not have yet."""
        return self._sealed_bytes + self.growing()

    def age_s(self) -> float | None:
        """Return for how long the oldest records wait that are sealed; None if none are."""
        self.measure()
        return max((time.monotonic() - since_s for since_s in self._since_s.values()), default=None)

    def has_sealed(self) -> bool:
        """Return whether there were sealed segments when they were last measured."""
        return self._sealed_bytes > 0

    def measure(self) -> None:
        """Update the size and the ages of the sealed segments, which the loader removes."""
        total = 0
        since_s = {}
        for path in waiting(self._db):
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                continue  # loaded in the meantime
            known_s = self._since_s.get(path.name)
            since_s[path.name] = time.monotonic() - _age_s(path) if known_s is None else known_s
        self._sealed_bytes, self._since_s = total, since_s

    async def put(self, frame: bytes) -> None:
        """Write a frame; when it returns, the frame is on disk. Raises RejectedError if the disk fails."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._unwritten.append((frame, done))
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write_all())
        await done

    async def _write_all(self) -> None:
        # One sync for all frames that arrived during the last one.
        loop = asyncio.get_running_loop()
        while self._unwritten:
            batch, self._unwritten = self._unwritten, []
            try:
                await loop.run_in_executor(self._writer, self._append, [frame for frame, _ in batch])
            except OSError as error:
                _log.error("%s: cannot write: %s", self._folder, error)
                for _, done in batch:
                    if not done.done():
                        done.set_exception(unavailable(f"cannot write to disk: {error.strerror}", 5))
            else:
                for _, done in batch:
                    if not done.done():  # the client may have disconnected
                        done.set_result(None)

    def _append(self, frames: list[bytes]) -> None:
        with self._segment_lock:
            if self._segment is None:
                self._segment = Segment(self._folder)
            try:
                self._segment.append(frames)
            except OSError:
                self._seal()  # after a failed sync it is unknown what is on disk
                raise
            if self._segment.size >= _SEGMENT_BYTES:
                self._seal()

    def growing(self) -> int:
        """Return how many bytes the segment has that is not sealed."""
        segment = self._segment
        return segment.size if segment else 0

    def seal(self) -> None:
        """Close the growing segment, so that the loader can read it."""
        with self._segment_lock:
            self._seal()
        self.measure()

    def _seal(self) -> None:
        segment, self._segment = self._segment, None
        if segment:
            self._sealed_bytes += segment.size
            segment.close()

    def renew(self) -> None:
        """Make the folder and the lock again if they were removed.

        Raises StoreLockedError if another receiver has locked the spool in the meantime.
        """
        self._folder.mkdir(mode=folder_mode(), exist_ok=True)
        self._lock.renew()

    def close(self) -> None:
        """Seal the last segment and unlock the spool."""
        self._writer.shutdown()
        try:
            self.seal()
        except OSError as error:  # the segment stays open, and the next command seals it
            _log.error("%s: cannot seal the last segment: %s", self._folder, error)
        finally:
            self._lock.close()


def _age_s(segment: Path) -> float:
    """Return how old a segment is by its name, which begins with the time when it was made."""
    made_ns = segment.name.partition("-")[0]
    return max(0.0, (time.time_ns() - int(made_ns)) / 1e9) if made_ns.isdecimal() else 0.0
