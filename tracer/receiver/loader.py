"""The one loader: from the spool into the database, in short windows between which the file is free."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from spangrade.tracer.errors import SpangradeError
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.queue import Backlog
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import drain, waiting

_log = logging.getLogger("spangrade")
_WARN_EVERY_S = 60.0
_REST_S = 0.25  # after a window that did not take all in: who waits for the file tries every 0.05 s
_CHORE_EVERY_S = 86_400.0
_TROUBLE = (SpangradeError, duckdb.Error, OSError)  # what waits in the spool is tried again


class Loader(threading.Thread):
    """Opens the database every `every_s` seconds if there is something for it, for `window_s` and a segment.

    While another process has it, the spool grows. `chore`, if given, is called with the database's path
    between two windows, at the start and once a day.
    """

    def __init__(
        self,
        db: Path,
        backlog: Backlog,
        counters: Counters,
        *,
        every_s: float = 1.0,
        window_s: float = 0.5,
        chore: Callable[[Path], None] | None = None,
    ) -> None:
        super().__init__(name="loader", daemon=True)
        self._db = db
        self._backlog = backlog
        self._counters = counters
        self._every_s = every_s
        self._window_s = window_s
        self._chore = chore
        self._chore_due_s = 0.0
        self._stopping = threading.Event()
        self._warned_s = float("-inf")
        self.trouble: str | None = None

    def run(self) -> None:
        """Load until `stop`."""
        while not self._stopping.wait(_REST_S if waiting(self._db) else self._every_s):
            self._once()
            if self._chore and time.monotonic() >= self._chore_due_s:
                self._chore_due_s = time.monotonic() + _CHORE_EVERY_S
                self._attempt(lambda: self._chore and self._chore(self._db))

    def _once(self) -> None:
        self._backlog.hand_over()
        if waiting(self._db):
            self._attempt(self._window)
        self._backlog.measure()
        self._counters.spool_bytes.set(self._backlog.size())

    def _attempt(self, do: Callable[[], object]) -> None:
        try:
            do()
        except _TROUBLE as error:
            self.trouble = str(error)
            self._counters.failed_windows.inc()
            if time.monotonic() - self._warned_s >= _WARN_EVERY_S:
                self._warned_s = time.monotonic()
                _log.warning("%s; %d bytes wait in the spool", error, self._backlog.size())
        else:
            self.trouble = None

    def _window(self) -> None:
        with Store.open(self._db, wait_s=self._window_s, stop=self._stopping) as store:
            added = drain(store, until_s=time.monotonic() + self._window_s)
        self._counters.stored.labels("spans").inc(added.spans)
        self._counters.stored.labels("logs").inc(added.logs)
        self._counters.duplicates.inc(added.duplicates)

    def finish(self, patience_s: float) -> bool:
        """Stop, and load what is left; tell whether all of it is in the database.

        What is not stays in the spool, for the next start.
        """
        self._stopping.set()
        self.join()
        give_up_s = time.monotonic() + patience_s
        self._backlog.hand_over()
        try:
            while waiting(self._db):
                with Store.open(self._db, wait_s=max(0.0, give_up_s - time.monotonic())) as store:
                    drain(store)
        except _TROUBLE as error:
            _log.warning("%s; %d bytes stay in the spool for the next start", error, self._backlog.size())
            return False
        return True
