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

    `alert` is its condition, `rule` the alert as JSON; `stream` is named by what `stream_by` says (None: all
    sessions), empty if that is not recorded. `text` says it to people. `value` is the mean of the `sessions`
    since `since_ns`; for what is worse it is the share of them that is beyond the `limit`, which `before` is
    the share of before; for silence, value and limit are seconds. `ended_ns` is None while it is on. `cause`
    is what most of the failures have in common. `filters` choose the sessions in their list, and `examples`
    are the ids of some.
    """

    alarm_id: str
    alert: str
    rule: str
    stream_by: str | None
    stream: str
    cause: str | None
    started_ns: int
    ended_ns: int | None
    since_ns: int
    sessions: int
    value: float
    limit: float
    before: float | None
    text: str
    filters: Mapping[str, str]
    examples: tuple[str, ...]

    @property
    def of(self) -> str:
        """The stream for people: `agent shop`."""
        return "all sessions" if self.stream_by is None else f"{self.stream_by} {self.stream or 'unknown'}"

    def to_json(self) -> dict[str, Any]:
        """Return the alarm as JSON values: times as ISO texts."""
        values = {name: value for name, value in self._asdict().items() if not name.endswith("_ns")}
        del values["rule"]
        return {
            **values,
            "started_at": iso(self.started_ns),
            "ended_at": None if self.ended_ns is None else iso(self.ended_ns),
            "since": iso(self.since_ns),
        }


def iso(time_ns: int) -> str:
    """Return a time as an ISO text in UTC, to the second."""
    return datetime.fromtimestamp(time_ns // 10**9, UTC).isoformat()


class AlarmChange(NamedTuple):
    """The alarms of one cause, all of them, when the first started or the last one ended."""

    alarms: tuple[Alarm, ...]
    is_over: bool


def time_text(time_ns: int, now_ns: int) -> str:
    """Return a time in UTC: `15:15 UTC`, with the day if it is not that of now."""
    time, now = (datetime.fromtimestamp(one / 1e9, UTC) for one in (time_ns, now_ns))
    day = "" if time.date() == now.date() else f" on {time.day} {time:%B}"
    return f"{time:%H:%M} UTC{day}"


def seconds_text(seconds: float) -> str:
    """Return a length of time in words: `3.5 h`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def stored_alarms(
    store: Store, alarm_id: str | None = None, limit: int = MOST, *, only_on: bool = False
) -> list[Alarm]:
    """Return the alarms, active ones first, then the newest; with an id, only those that share it."""
    if not _has_alarms(store):
        return []
    parameters = {"alarm_id": alarm_id, "limit": None if only_on else limit, "only_on": only_on}
    rows = store.query(statement("alarms", "spangrade.evaluator.results"), parameters)
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
    filters, examples = orjson.loads(values["filters"]), tuple(values["examples"])
    return Alarm(**values | {"filters": filters, "examples": examples})
