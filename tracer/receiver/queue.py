"""The bounded queue between the receiver and the database: segments on disk, synced for many at once."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from spangrade.tracer.errors import StoreLockedError
from spangrade.tracer.receiver.limits import busy
from spangrade.tracer.store.locks import lock_file
from spangrade.tracer.store.spool import Segment, folder_of, recover, waiting

_log = logging.getLogger("spangrade")
_SEGMENT_BYTES = 32 * 2**20  # what the loader has in memory at once


class Backlog:
    """Frames on their way to the database. Raises StoreLockedError if another receiver has its spool."""

    def __init__(self, db: Path, limit: int) -> None:
        self._db = db
        self._folder = folder_of(db)
        self._limit = limit
        self._folder.mkdir(mode=0o700, exist_ok=True)
        lock = lock_file(self._folder / "lock")
        if lock is None:
            raise StoreLockedError(f"{self._folder}: another receiver is writing here: stop it first")
        self._lock = lock
        recover(db)
        self._segment: Segment | None = None
        self._guard = threading.Lock()
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._syncing: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1, "spool")
        self._at_rest = 0
        self.measure()

    def full(self) -> bool:
        """Tell whether no more is to be put in."""
        return self.size() >= self._limit

    def size(self) -> int:
        """Return how many bytes the database does not have yet."""
        segment = self._segment
        return self._at_rest + (segment.size if segment else 0)

    def measure(self) -> None:
        """Look at what lies on disk, after the loader took some of it in."""
        total = 0
        for path in waiting(self._db):
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                continue  # taken in meanwhile
        self._at_rest = total

    async def put(self, frame: bytes) -> None:
        """Write a frame; when it returns it is on disk. Raises Refusal if the disk does not take it."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((frame, done))
        if self._syncing is None or self._syncing.done():
            self._syncing = loop.create_task(self._sync())
        await done

    async def _sync(self) -> None:
        # One sync for all that came while the last one was under way.
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await loop.run_in_executor(self._writer, self._append, [frame for frame, _ in batch])
            except OSError as error:
                _log.error("%s: cannot write: %s", self._folder, error)
                for _, done in batch:
                    if not done.done():
                        done.set_exception(busy(f"cannot write to disk: {error.strerror}", 5))
            else:
                for _, done in batch:
                    if not done.done():  # its client may have gone
                        done.set_result(None)

    def _append(self, parts: list[bytes]) -> None:
        with self._guard:
            if self._segment is None:
                self._segment = Segment(self._folder)
            try:
                self._segment.append(parts)
            except OSError:
                self._rotate()  # after a failed sync nobody knows what the disk has of it
                raise
            if self._segment.size >= _SEGMENT_BYTES:
                self._rotate()

    def hand_over(self) -> None:
        """Make what was written so far ready for the loader."""
        with self._guard:
            self._rotate()
        self.measure()

    def _rotate(self) -> None:
        segment, self._segment = self._segment, None
        if segment:
            self._at_rest += segment.size
            segment.close()

    def close(self) -> None:
        """Hand over what is left and let the spool go."""
        self._writer.shutdown()
        self.hand_over()
        os.close(self._lock)
