"""What the receiver counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class Counters:
    """The receiver's counters, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
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
            "Spans and log records that could not be read; their request's answer said so.",
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
            "Spans and log records delivered again, which the database had.",
            registry=self._registry,
        )
        self.failed_windows = Counter(
            "spangrade_failed_writes",
            "Times that the database could not be written; what waits in the spool is tried again.",
            registry=self._registry,
        )
        self.spool_bytes = Gauge(
            "spangrade_spool_bytes", "Bytes on disk that the database does not have.", registry=self._registry
        )

    def text(self) -> bytes:
        """Return all counters in Prometheus' text format."""
        return generate_latest(self._registry)
