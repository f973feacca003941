"""The receiver's metrics, for Prometheus."""

from __future__ import annotations

import logging
import time
from collections import Counter as Counts
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

_log = logging.getLogger("spangrade")
_QUIET_S = 60.0  # between two log lines about rejections of one kind


class Counters:
    """The receiver's counters, in a `registry` of their own, to which other parts of a service may add."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self._logged_s: dict[int | str, float] = {}
        self._unlogged: Counts[int | str] = Counts()
        self.requests = Counter(
            "spangrade_requests",
            "Export requests answered.",
            ["transport", "signal", "code"],
            registry=self.registry,
        )
        self.accepted = Counter(
            "spangrade_accepted_records",
            "Spans and log records on disk before their request was answered.",
            ["signal"],
            registry=self.registry,
        )
        self.rejected = Counter(
            "spangrade_rejected_records",
            "Spans and log records that could not be read, as the answer to their request says.",
            ["signal"],
            registry=self.registry,
        )
        self.stored = Counter(
            "spangrade_stored_records",
            "Spans and log records written to the database.",
            ["signal"],
            registry=self.registry,
        )
        self.duplicates = Counter(
            "spangrade_duplicate_records",
            "Spans and log records that the database already had.",
            registry=self.registry,
        )
        self.failed_writes = Counter(
            "spangrade_failed_writes",
            "Failed attempts to write to the database; the spool keeps the records for the next attempt.",
            registry=self.registry,
        )
        self.damaged_bytes = Counter(
            "spangrade_damaged_bytes",
            "Bytes of the spool that were damaged on disk; they are kept in *.rejected files.",
            registry=self.registry,
        )
        self.spool_bytes = Gauge(
            "spangrade_spool_bytes",
            "Bytes in the spool that are not in the database yet.",
            registry=self.registry,
        )

    def log_rejected(self, code: int, peer: str, why: str) -> None:
        """Log that a request was rejected, with how many were since the last line about that code."""
        if (more := self._since_last_line(code, 1)) is not None:
            _log.warning("rejected a request of %s with %d: %s%s", peer, code, why, more)

    def log_rejected_records(self, signal: str, count: int, peer: str, why: str) -> None:
        """Log that records of an accepted request were rejected, with how many were since the last line."""
        if (more := self._since_last_line(signal, count)) is not None:
            _log.warning("rejected %d %s of an accepted request of %s: %s%s", count, signal, peer, why, more)

    def _since_last_line(self, kind: int | str, count: int) -> str | None:
        """Return a note on the events that were not logged, None if this one is not logged either."""
        now = self._clock()
        if now - self._logged_s.get(kind, -_QUIET_S) < _QUIET_S:
            self._unlogged[kind] += count
            return None
        self._logged_s[kind] = now
        others = self._unlogged.pop(kind, 0)
        return f"; {others} more since the last line" if others else ""

    def text(self) -> bytes:
        """Return all counters in Prometheus' text format."""
        return generate_latest(self.registry)
