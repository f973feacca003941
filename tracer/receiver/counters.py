"""The receiver's metrics, for Prometheus."""

from __future__ import annotations

import logging
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

_log = logging.getLogger("spangrade")
_QUIET_S = 60.0  # between two log lines about rejected requests with the same code


class Counters:
    """The receiver's counters, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._logged_s: dict[int, float] = {}
        self._unlogged: dict[int, int] = {}
        self.requests = Counter(
            "spangrade_requests",
            "Export requests answered.",
            ["transport", "signal", "code"],
            registry=self._registry,
        )
        self.accepted = Counter(
            "spangrade_accepted_records",
            "Spans and log records on disk before their request was answered.",
            ["signal"],
            registry=self._registry,
        )
        self.rejected = Counter(
            "spangrade_rejected_records",
            "Spans and log records that could not be read, as the answer to their request says.",
            ["signal"],
            registry=self._registry,
        )
        self.stored = Counter(
            "spangrade_stored_records",
            "Spans and log records written to the database.",
            ["signal"],
            registry=self._registry,
        )
        self.duplicates = Counter(
            "spangrade_duplicate_records",
            "Spans and log records that the database already had.",
            registry=self._registry,
        )
        self.failed_writes = Counter(
            "spangrade_failed_writes",
            "Failed attempts to write to the database; the spool keeps the records for the next attempt.",
            registry=self._registry,
        )
        self.damaged_bytes = Counter(
            "spangrade_damaged_bytes",
            "Bytes of the spool that were damaged on disk; they are kept in *.rejected files.",
            registry=self._registry,
        )
        self.spool_bytes = Gauge(
            "spangrade_spool_bytes",
            "Bytes in the spool that are not in the database yet.",
            registry=self._registry,
        )

    def log_rejected(self, code: int, peer: str, why: str) -> None:
        """Log that a request was rejected, with how many were since the last line about that code."""
        now = time.monotonic()
        if now - self._logged_s.get(code, -_QUIET_S) < _QUIET_S:
            self._unlogged[code] = self._unlogged.get(code, 0) + 1
            return
        self._logged_s[code] = now
        others = self._unlogged.pop(code, 0)
        more = f"; {others} more since the last line" if others else ""
        _log.warning("rejected a request of %s with %d: %s%s", peer, code, why, more)

    def text(self) -> bytes:
        """Return all counters in Prometheus' text format."""
        return generate_latest(self._registry)
