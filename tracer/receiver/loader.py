"""Moves the spool on: into the database in short windows, between which the file is free, or to a lake."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb

from spangrade.tracer.base.errors import SpangradeError, StoreLockedError
from spangrade.tracer.base.file_modes import folder_mode
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.queue import SpoolQueue
from spangrade.tracer.semconv import RECEIVER_RESTARTED
from spangrade.tracer.span import LogRecord
from spangrade.tracer.store import Store
from spangrade.tracer.store.locks import turns_at
from spangrade.tracer.store.object_storage import storage_connection, write_landing
from spangrade.tracer.store.spool import DamagedSegment, drain, read_segment, waiting
from spangrade.tracer.store.sql import statement

_log = logging.getLogger("spangrade")
_WARN_EVERY_S = 60.0
_LOCKED_FOR_S = 60.0
_EVERY_S = 1.0
# Opening and closing the database costs 40 ms of CPU, as much as loading 2,000 spans.
_AMOUNT, _AGAIN_S = 2**20, 10.0  # bytes in the spool for which it is opened, or how long after the last time
_WINDOW_S = 0.5  # that the database is open at a time
_TURN_WITHIN_S = 5.0
_PAUSE_S = 0.25  # while the spool is not empty; a process that waits for the file tries every 0.05 s
_MAINTENANCE_EVERY_S = 86_400.0
_RETRIED = (SpangradeError, duckdb.Error, OSError)  # the records stay in the spool for the next attempt
_SCOPE = "spangrade.receiver"


class Loader(threading.Thread):
    """Writes the spool to the database, for half a second and one segment at most.

    That is every second if much waits, else ten seconds after the last time; at once after a pause.

    The spool grows while another process has the database open. `maintenance_task`, if given, is called with
    the database's path between two windows, at the start and once a day. `last_error` is the message of the
    last attempt if it failed, else None; `last_load_ns` is the time of the last attempt that did not fail.
    `last_damage` describes the last damaged segment.
    """

    def __init__(
        self,
        db: Path,
        queue: SpoolQueue,
        counters: Counters,
        *,
        maintenance_task: Callable[[Path], None] | None = None,
    ) -> None:
        super().__init__(name="loader", daemon=True)
        self._db = db
        self._queue = queue
        self._counters = counters
        self._maintenance_task = maintenance_task
        self._next_maintenance_s = 0.0
        self._before: set[Path] | None = None  # what a receiver before this one left in the spool
        self._is_start_noted = False
        self._last_window_s = float("-inf")
        self._stopping = threading.Event()
        self._last_warning_s = float("-inf")
        self._locked_since_s: float | None = None
        self.last_load_ns: int | None = None
        self.last_error: str | None = None
        self.last_damage: str | None = None

    def run(self) -> None:
        """Load until `stop`."""
        pause_s = _EVERY_S
        while not self._stopping.wait(pause_s):
            self._attempt(self._load)
            self._maintain()
            pause_s = _PAUSE_S if self._queue.has_sealed() else _EVERY_S

    def _load(self) -> None:
        self._queue.renew()
        try:
            again_s = time.monotonic() - self._last_window_s
            if again_s >= _AGAIN_S or self._queue.growing() >= _AMOUNT:
                self._queue.seal()
            found = waiting(self._db)
            if self._before is None:
                self._before = set(found)
            if found:
                self._last_window_s = time.monotonic()
                self._write_window()
            if not self._is_start_noted and self._before.isdisjoint(waiting(self._db)):
                with Store.open(self._db, wait_s=_TURN_WITHIN_S, stop=self._stopping) as store:
                    note_start(store, time.time_ns())
                self._is_start_noted = True
        finally:
            self._queue.measure()
            self._counters.spool_bytes.set(self._queue.size())

    def _maintain(self) -> None:
        task = self._maintenance_task
        if task and time.monotonic() >= self._next_maintenance_s:
            self._next_maintenance_s = time.monotonic() + _MAINTENANCE_EVERY_S
            self._attempt(lambda: task(self._db))

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 (without this thread, requests are answered and nothing is loaded)
            self.last_error = str(error) or repr(error)
            if not isinstance(error, StoreLockedError):
                self._locked_since_s = float("-inf")
            elif self._locked_since_s is None:
                self._locked_since_s = time.monotonic()
            self._counters.failed_writes.inc()
            if time.monotonic() - self._last_warning_s >= _WARN_EVERY_S:
                self._last_warning_s = time.monotonic()
                _log.warning("%s; the spool holds %d bytes", self.last_error, self._queue.size())
        else:
            self.last_error = self._locked_since_s = None
            self.last_load_ns = time.time_ns()

    def problem(self) -> str | None:
        """Return why records do not reach the database, None if they do.

        Another process may have it open for a minute: others read it between two windows.
        """
        if not self.is_alive():
            return "the loader has stopped"
        since_s = self._locked_since_s
        return None if since_s is None or time.monotonic() - since_s < _LOCKED_FOR_S else self.last_error

    def _write_window(self) -> None:
        # Where parts of a server take turns, theirs may be longer: those who give up early never get one.
        wait_s = _WINDOW_S if turns_at(self._db) is None else _TURN_WITHIN_S
        with Store.open(self._db, wait_s=wait_s, stop=self._stopping) as store:
            added = drain(store, until_s=time.monotonic() + _WINDOW_S, on_damage=self._report_damage)
        self._counters.stored.labels("spans").inc(added.spans)
        self._counters.stored.labels("logs").inc(added.logs)
        self._counters.duplicates.inc(added.duplicates)

    def _report_damage(self, damage: DamagedSegment) -> None:
        self.last_damage = damage.message
        self._counters.damaged_bytes.inc(damage.size)
        if damage.size or time.monotonic() - self._last_warning_s >= _WARN_EVERY_S:
            self._last_warning_s = time.monotonic()
            _log.error("%s", damage.message)

    def stop(self, timeout_s: float) -> bool:
        """Stop the thread and load the rest; return whether all records are in the database.

        If the database stays locked for `timeout_s`, the rest stays in the spool for the next start.
        """
        self._stopping.set()
        self.join()
        give_up_s = time.monotonic() + timeout_s
        try:
            self._queue.seal()
            before: list[Path] = []
            while (segments := waiting(self._db)) and segments != before:  # one that cannot be read stays
                before = segments
                with Store.open(self._db, wait_s=max(0.0, give_up_s - time.monotonic())) as store:
                    drain(store)
        except _RETRIED as error:
            _log.warning("%s; %d bytes stay in the spool for the next start", error, self._queue.size())
            return False
        return not segments


def note_start(store: Store, now_ns: int) -> int:
    """Mark the traces that the end of the last receiver cut; return how many marks. Note the first start.

    All that was received before is to be in the database. Exporters give a batch up after ten seconds, and an
    agent's root span is in its last batch: the traces that were open when the receiver ended are marked by a
    log record beside a span whose parent has not arrived. What it means is decided when the session is
    derived: if the parent arrives later, nothing.
    """
    store.query(statement("receiver_starts"))
    ((newest,),) = store.query("SELECT coalesce(max(seq), 0) FROM spans")
    ((since,),) = store.query("SELECT max(seq) FROM receiver_starts")
    if since is None:
        store.query("INSERT INTO receiver_starts VALUES ($seq, $now)", {"seq": newest, "now": now_ns})
        return 0
    cut = store.query(statement("cut_traces"), {"newest": newest, "since": since, "now": now_ns})
    store.add(
        LogRecord(trace_id, span_id, now_ns, RECEIVER_RESTARTED, scope_name=_SCOPE)
        for trace_id, span_id in cut
    )
    return len(cut)


class Lander(Loader):
    """Sends the spool to a lake's landing folder every `segment_s` seconds, or when a segment is full.

    Each sealed segment becomes landing files under a name of its own. If the process dies between the sending
    and the removal of the segment, the next start sends the same rows under the same name again.
    """

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
