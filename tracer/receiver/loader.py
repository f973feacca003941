"""The loader: moves the spool into the database in short windows, between which the file is free."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from spangrade.tracer.base.errors import SpangradeError, StoreLockedError
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.queue import SpoolQueue
from spangrade.tracer.receiver.restarts import note_start
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import DamagedSegment, drain, waiting
from spangrade.tracer.store.turns import turns_at

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
