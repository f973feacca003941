"""The lander: moves the spool to the landing folder of a lake, in place of the loader and its database.

Each sealed segment becomes landing files under a name of its own. If the process dies between the sending and
the removal of the segment, the next start sends the same rows under the same name again.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from pathlib import Path

import duckdb

from spangrade.tracer.base.errors import SpangradeError
from spangrade.tracer.base.file_modes import folder_mode
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.loader import Loader
from spangrade.tracer.receiver.queue import SpoolQueue
from spangrade.tracer.store.landing import write_landing
from spangrade.tracer.store.object_storage import storage_connection
from spangrade.tracer.store.spool import read_segment, waiting


class Lander(Loader):
    """Sends the spool to a landing folder every `segment_s` seconds, or when a segment is full."""

    def __init__(
        self, db: Path, queue: SpoolQueue, counters: Counters, landing: str, *, segment_s: float = 60.0
    ) -> None:
        super().__init__(db, queue, counters)
        self._landing = landing
        self._segment_s = segment_s
        self._next_seal_s = time.monotonic() + segment_s
        self._receiver = receiver_id(db)

    def _load(self) -> None:
        self._queue.renew()
        if time.monotonic() >= self._next_seal_s:
            self._next_seal_s = time.monotonic() + self._segment_s
            self._queue.seal()
        try:
            self._write_window()
        finally:
            self._queue.measure()
            self._counters.spool_bytes.set(self._queue.size())

    def _write_window(self) -> None:
        for segment in waiting(self._db):
            self._send(segment)

    def _send(self, segment: Path) -> None:
        """Send a segment, then remove it."""
        content = read_segment(segment, self._report_damage)
        if content is None:
            return
        arrived_ns = int(segment.name.partition("-")[0])
        with storage_connection(threads=1) as connection:
            write_landing(connection, self._landing, f"{self._receiver}-{segment.stem}", arrived_ns, content)
        segment.unlink(missing_ok=True)
        for table, parts in content.items():
            self._counters.stored.labels(table).inc(sum(map(len, parts)))

    def stop(self, timeout_s: float) -> bool:  # noqa: ARG002 (what cannot be sent stays)
        """Stop the thread and send the rest; what cannot be sent stays in the spool for the next start."""
        self._stopping.set()
        self.join()
        self._queue.seal()
        with suppress(SpangradeError, duckdb.Error, OSError):
            self._write_window()
        return not waiting(self._db)


def receiver_id(db: Path) -> str:
    """Return the id of the receiver whose spool is beside a path: made once, and kept there."""
    folder = db.with_name(f"{db.name}.spool")
    folder.mkdir(mode=folder_mode(), parents=True, exist_ok=True)
    file = folder / "receiver"
    with suppress(FileExistsError), file.open("x", encoding="ascii") as new:
        new.write(uuid.uuid4().hex)
    return file.read_text(encoding="ascii").strip()
