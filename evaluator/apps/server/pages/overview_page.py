"""The first page: what happened since yesterday, against the period before."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from spangrade.evaluator.apps.server.pages.queries import page_query
from spangrade.evaluator.grading.stored_sessions import FAILED
from spangrade.evaluator.reports.html.filters import Scope, SessionFilter, scope_of, session_filter
from spangrade.evaluator.reports.html.queries import query_rows
from spangrade.evaluator.reports.html.run_page import pass_rate
from spangrade.evaluator.results.alarms import Alarm, stored_alarms
from spangrade.evaluator.results.origin import left_out_origins
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.statistics.clusters import Cluster
from spangrade.evaluator.statistics.comparison.graded import Graded, shown_sessions
from spangrade.evaluator.statistics.failure_causes.causes import ranked
from spangrade.evaluator.statistics.failure_causes.groups import explain
from spangrade.evaluator.statistics.intervals import rates_interval
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.quantities import parse_time
from spangrade.tracer.store import Store

_SECOND_NS = 10**9
MAX_SESSIONS = 2_000  # whose failures are explained
SHOWN_CAUSES = 5  # the others are folded
EXAMPLES = 3  # sessions of a cause


class Period(NamedTuple):
    """The time from `since_ns` on and before `until_ns`, and `before_ns`, where the period before begins."""

    before_ns: int
    since_ns: int
    until_ns: int


class FailureGroup(NamedTuple):
    """Sessions that failed alike, whether any did so in the period before, and the first words of some."""

    cluster: Cluster
    is_new: bool
    examples: Mapping[str, str | None]


class _Asked(NamedTuple):
    """What an address asks for: the scope, the period, the filters of the list, and two conditions.

    `chosen` are the sessions of any time, `now` those of the period.
    """

    scope: Scope
    period: Period
    filters: Mapping[str, str]
    chosen: SessionFilter
    now: SessionFilter


def overview_page(
    store: Store, texts: Mapping[str, str], only: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the values of `overview.html`: the sessions of the header's filters since a time.

    Unless the parameters of the URL have one, it is the day before that of the newest session. With `only`
    the sessions are among those of these ids. Raises InputError for a value that cannot be used.
    """
    scope = scope_of(store, texts)
    values = {
        **scope.values(),
        "left_out_origins": left_out_origins(store, scope.origin),
        "alarms": _alarms(store),
        "now": None,
        "before": None,
    }
    asked = _asked(store, scope, only)
    if asked is None:
        return values
    period = asked.period
    query = page_query("overview").replace("$condition", asked.chosen.condition)
    times = {"before": period.before_ns, "since": period.since_ns, "until": period.until_ns}
    rows = query_rows(store, query, {**asked.chosen.parameters, **times})
    periods = {row.pop("now"): row for row in rows}
    now, before = (_judged(periods.get(is_now)) for is_now in (True, False))
    return {
        **values,
        "now": now,
        "before": before,
        "difference": _difference(before, now),
        "since": datetime.fromtimestamp(period.since_ns // _SECOND_NS, UTC),
        "length": _length(period),
        "filters": asked.filters,
    }


def causes_part(
    store: Store, texts: Mapping[str, str], only: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the values of `part_causes.html`: why the sessions of the page failed.

    They are those of its `MAX_SESSIONS` newest sessions, as `spangrade show` groups them.
    """
    asked = _asked(store, scope_of(store, texts), only)
    causes = [] if asked is None else _causes(store, asked)
    has_before = asked is not None and bool(
        store.query(
            f"SELECT 1 FROM derived.sessions WHERE {asked.chosen.condition} "  # noqa: S608 (ours)
            "AND start_ns >= $before AND start_ns < $since LIMIT 1",
            {**asked.chosen.parameters, "before": asked.period.before_ns, "since": asked.period.since_ns},
        )
    )
    return {"causes": causes, "shown": SHOWN_CAUSES, "has_before": has_before}


def _asked(store: Store, scope: Scope, only: Collection[str] | None) -> _Asked | None:
    """Return what a scope asks for; None if it has no session."""
    chosen = scope.sessions(only, "since", "until")
    period = _period(store, scope.given, chosen)
    if period is None:
        return None
    filters = {**scope.filters, "since": scope.given.get("since") or _day(period.since_ns)}
    return _Asked(scope, period, filters, chosen, session_filter(filters, only))


def _period(store: Store, given: Mapping[str, str], chosen: SessionFilter) -> Period | None:
    """Return the period that the header asks for; None if there is no session."""
    query = (
        f"SELECT coalesce(max(start_ns) FILTER (start_ns <= $today), max(start_ns)) "  # noqa: S608 (ours)
        f"FROM derived.sessions WHERE {chosen.condition}"
    )
    (newest,) = store.query(query, {**chosen.parameters, "today": time.time_ns()})[0]
    if newest is None:
        return None
    end = (newest // _SECOND_NS + 1) * _SECOND_NS
    until = parse_time(given["until"]) if "until" in given else end
    day = datetime.fromtimestamp((until - 1) // _SECOND_NS, UTC).date()
    since = parse_time(given.get("since") or str(day - timedelta(days=1)))
    if since >= until:
        if "until" in given:
            raise InputError("since: expected a time before until")
        until = max(end, since + _SECOND_NS)
    return Period(since - (until - since), since, until)


def _length(period: Period) -> str:
    """Return how long a period is, in words."""
    hours = (period.until_ns - period.since_ns) / (3600 * _SECOND_NS)
    number, word = (hours / 24, "day") if hours >= 47.5 else (hours, "hour")
    return f"{number:.0f} {word}s" if round(number) > 1 else word


def _day(time_ns: int) -> str:
    return str(datetime.fromtimestamp(time_ns // _SECOND_NS, UTC).date())


def _judged(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a period with its pass rate: inconclusive and broken sessions did not pass."""
    if row is None:
        return None
    judged = row["sessions"] - row["not_graded"] - row["unmatched"]
    return {**row, "judged": judged, "rate": pass_rate(row["passed"], judged)}


class RateChange(NamedTuple):
    """How much larger a pass rate is than before, with its 95% interval."""

    estimate: float
    low: float
    high: float

    @property
    def word(self) -> str:
        """What the interval shows."""
        return "more" if self.low > 0 else "fewer" if self.high < 0 else ""


def _difference(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> RateChange | None:
    if not (before and now and before["rate"] and now["rate"]):
        return None
    pairs = [(one["passed"], one["judged"]) for one in (before, now)]
    return RateChange(now["rate"]["share"] - before["rate"]["share"], *rates_interval(*pairs))


def _causes(store: Store, asked: _Asked) -> list[FailureGroup]:
    """Return the causes of the failures as `explain` has them, by what the period before leads to expect."""
    newest = (
        f"rowid IN (SELECT rowid FROM derived.sessions WHERE {asked.now.condition} "  # noqa: S608 (ours)
        f"ORDER BY start_ns DESC, session_id LIMIT {MAX_SESSIONS})"
    )
    clusters = explain(store, shown_sessions(store, newest, asked.now.parameters))
    if not clusters:
        return []
    query = (
        "SELECT count(*) FILTER (start_ns >= $since), count(*) FILTER (start_ns < $since) "  # noqa: S608 (ours)
        f"FROM derived.sessions WHERE {asked.chosen.condition} AND start_ns >= $before AND start_ns < $until"
    )
    period = asked.period
    times = {"before": period.before_ns, "since": period.since_ns, "until": period.until_ns}
    ((sessions, sessions_before),) = store.query(query, {**asked.chosen.parameters, **times})
    before = _failures_before(store, asked.chosen, asked.period)
    groups = ranked(store, clusters, min(sessions, MAX_SESSIONS), before, sessions_before)
    words = _first_inputs(store, [session for one in groups for session in one.cluster.some(EXAMPLES)])
    return [
        FailureGroup(
            one.cluster,
            one.is_new,
            {session: words.get(session) for session in one.cluster.some(EXAMPLES)},
        )
        for one in groups
    ]


def _alarms(store: Store) -> list[dict[str, Any]]:
    """Return the alarms by cause: those that are on first, then the newest."""
    by_cause: dict[str, list[Alarm]] = {}
    for one in stored_alarms(store):
        by_cause.setdefault(one.alarm_id, []).append(one)
    return list(map(_alarm, by_cause.values()))


def _alarm(alarms: list[Alarm]) -> dict[str, Any]:
    ends = [one.ended_ns for one in alarms]
    return {
        "alert": alarms[0].alert,
        "is_on": None in ends,
        "started_ns": min(one.started_ns for one in alarms),
        "ended_ns": None if None in ends else max(one for one in ends if one is not None),
        "alarms": alarms,
    }


def _failures_before(store: Store, chosen: SessionFilter, period: Period) -> list[Graded]:
    """Return the failures of the period before, without their paths."""
    query = with_views(
        "SELECT session_id, graded.question_id, verdict, reason FROM derived.sessions "  # noqa: S608 (ours)
        f"JOIN (FROM {{grades}} WHERE shown AND verdict IN {FAILED}) AS graded USING (session_id) "
        f"WHERE {chosen.condition} AND start_ns >= $before AND start_ns < $since"
    )
    times = {"before": period.before_ns, "since": period.since_ns}
    return [Graded(*row) for row in store.query(query, {**chosen.parameters, **times})]


def _first_inputs(store: Store, session_ids: Sequence[str]) -> dict[str, str | None]:
    if not session_ids:
        return {}
    ids = {f"id{number}": one for number, one in enumerate(dict.fromkeys(session_ids))}
    # Values, not a table: DuckDB reads half as much for a list of values.
    listed = ", ".join(f"${name}" for name in ids)
    query = f"SELECT session_id, first_input FROM derived.sessions WHERE session_id IN ({listed})"  # noqa: S608 (names of ours)
    return dict(store.query(query, ids))
