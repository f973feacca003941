"""The receiver's metrics, for Prometheus."""

from __future__ import annotations

import logging
import time
from collections import Counter as Counts
from collections import deque
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

_log = logging.getLogger("spangrade")
_QUIET_S = 60.0  # between two log lines about rejections of one kind
BUSY_S = 600  # that answers with 503 are remembered


class Counters:
    """The receiver's counters, in a `registry` of their own, to which other parts of a service may add."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self._logged_s: dict[int | str, float] = {}
        self._unlogged: Counts[int | str] = Counts()
        self._busy_s: deque[float] = deque(maxlen=100_000)
        self.busy = Counter(
            "spangrade_busy_answers",
            "Answers that said to try again later (503; over gRPC UNAVAILABLE), by the part that gave them.",
            ["part"],
            registry=self.registry,
        )
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

    def note_busy(self, part: str) -> None:
        """Count an answer with 503 of a part of the service."""
        self.busy.labels(part).inc()
        self._busy_s.append(self._clock())

    def busy_lately(self) -> int:
        """Return how many answers said 503 in the last `BUSY_S` seconds."""
        since_s = self._clock() - BUSY_S
        while self._busy_s and self._busy_s[0] < since_s:
            self._busy_s.popleft()
        return len(self._busy_s)

    def log_rejected(self, code: int, peer: str, why: str) -> None:
        """Log that a request was rejected, with how many were since the last line about that code."""
        if code == 503:
            self.note_busy("receive")
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
