"""The alarms that the alerts of the settings gave, as they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

MOST = 1_000  # alarms in a list


class Alarm(NamedTuple):
    """An alert that holds for a stream of sessions; alarms with the same cause share an `alarm_id`.

    `alert` is its condition; `stream` is named by what `stream_by` says (None: all sessions), empty if that
    is not recorded. `value` is the mean of the `sessions` since `since_ns`, and `bound` the end of its
    interval, which is beyond the `limit`; `before` the mean before, if it is compared with it. For silence,
    these are seconds. `ended_ns` is None while it is on. `cause` and `details` are facts that distinguish
    failures from passing sessions, as in `explain`. `filters` choose the sessions in their list, and
    `examples` are the ids of some of them.
    """

    alarm_id: str
    alert: str
    stream_by: str | None
    stream: str
    cause: str | None
    details: tuple[str, ...]
    started_ns: int
    ended_ns: int | None
    since_ns: int
    sessions: int
    value: float
    bound: float
    limit: float
    before: float | None
    unit: str
    filters: Mapping[str, str]
    examples: tuple[str, ...]

    @property
    def of(self) -> str:
        """The stream for people: `agent shop`."""
        return "all sessions" if self.stream_by is None else f"{self.stream_by} {self.stream or 'unknown'}"

    @property
    def is_silence(self) -> bool:
        """Whether a stream fell silent."""
        return self.alert.startswith("silent ")

    @property
    def text(self) -> str:
        """The alarm's values for people, with the interval."""
        if self.is_silence:
            return f"no session for {_seconds(self.value)}; expected one within {_seconds(self.limit)}"
        side = "at least" if self.value > self.limit else "at most"
        before = "" if self.before is None else f", before {self._shown(self.before)}"
        return (
            f"{self._shown(self.value)} in {self.sessions:,} sessions, {side} {self._shown(self.bound)}; "
            f"limit {self._shown(self.limit)}{before}"
        )

    def _shown(self, value: float) -> str:
        return f"{value:.1%}" if self.unit == "share" else f"{value:.3g} {self.unit}".strip()

    def to_json(self) -> dict[str, Any]:
        """Return the alarm as JSON values: times as ISO texts, beside its text."""
        values = {name: value for name, value in self._asdict().items() if not name.endswith("_ns")}
        return {
            **values,
            "details": list(self.details),
            "examples": list(self.examples),
            "started_at": iso(self.started_ns),
            "ended_at": None if self.ended_ns is None else iso(self.ended_ns),
            "since": iso(self.since_ns),
            "text": self.text,
        }


def iso(time_ns: int) -> str:
    """Return a time as an ISO text in UTC, to the second."""
    return datetime.fromtimestamp(time_ns // 10**9, UTC).isoformat()


def _seconds(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def stored_alarms(store: Store, alarm_id: str | None = None, limit: int = MOST) -> list[Alarm]:
    """Return the alarms, active ones first, then the newest; with an id, only those that share it."""
    if not _has_alarms(store):
        return []
    rows = store.query(
        statement("alarms", "spangrade.evaluator.results"), {"alarm_id": alarm_id, "limit": limit}
    )
    try:
        return [_alarm(row) for row in rows]
    except (orjson.JSONDecodeError, TypeError):
        raise StoreError(f"{store.path}: the table alarms has other values than watch writes") from None


def count_alarms(store: Store) -> int:
    """Return the number of active alarms; alarms with the same cause count once."""
    if not _has_alarms(store):
        return 0
    return int(store.query("SELECT count(DISTINCT alarm_id) FROM alarms WHERE ended_ns IS NULL")[0][0])


def _has_alarms(store: Store) -> bool:
    """Return whether the table of alarms exists, which `watch` creates."""
    return bool(store.query("SELECT 1 FROM duckdb_tables() WHERE table_name = 'alarms'"))


def _alarm(row: Sequence[Any]) -> Alarm:
    values = dict(zip(Alarm._fields, row, strict=True))
    details, filters = orjson.loads(values["details"] or "[]"), orjson.loads(values["filters"])
    return Alarm(
        **values | {"details": tuple(details), "filters": filters, "examples": tuple(values["examples"])}
    )
