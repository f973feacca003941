"""The alerts of the settings: which streams of sessions are worse than they should be, told once each.

A stream is looked at over a window, from the start of each of its eight slots: whether the mean since then is
shown to be beyond a limit, however often one looks (`evaluator/statistics/shifts.py`). The alarms of one look
with one cause, as `explain` groups failures, are one message; a stream that fails by a cause which is on
joins it. An alarm is over once the mean of the window is back within the limit with which it started, or once
a silent stream has a session.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import nanoarrow as na
import orjson

from spangrade.evaluator.apps.server.grade.tables import sql
from spangrade.evaluator.grading.alerts import AlertRule, Limit, Loss, Silence
from spangrade.evaluator.grading.prepare import Prepared
from spangrade.evaluator.results.alarms import Alarm, iso, stored_alarms
from spangrade.evaluator.results.origin import OriginFilter
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.statistics.clusters import FAILING, Cluster
from spangrade.evaluator.statistics.comparison.sample import PASSED, Graded
from spangrade.evaluator.statistics.comparison.stored_sample import graded_sessions
from spangrade.evaluator.statistics.failure_causes.causes import Ranked, ranked
from spangrade.evaluator.statistics.failure_causes.groups import explain
from spangrade.evaluator.statistics.shifts import (
    BEFORE,
    CAP,
    SLOTS,
    PriorMean,
    Shift,
    error_of,
    longest_usual_pause,
    lower_bound,
    mean_of,
    shift,
    upper_bound,
)
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows

_STREAMS = {
    None: "''",
    "agent": "agents->>'$[0]'",
    "service": "service_name",
    "version": "agent_version",
    "model": "models->>'$[0]'",
    "environment": "environment",
}
# Known of every session, graded or not: the column, and its unit.
_OF_SESSIONS = {
    "cost": ("cost_usd", "USD"),
    "latency": ("total_s", "s"),
    "tokens": ("input_tokens + output_tokens", "tokens"),
}
_MOST_EXPLAINED = 2_000  # sessions whose failures are grouped at once, the newest
_EXAMPLES = 5
_DETAILS = 3

_Result = TypeVar("_Result")

_log = logging.getLogger("spangrade")


class _Measure(NamedTuple):
    """What an alert measures: the values of sessions in SQL, and which are worse."""

    name: str
    values: str
    unit: str
    low: float
    high: float
    more_is_worse: bool

    @property
    def bad(self) -> str:
        """How bad a value is, in SQL: 0 or more, and more is worse."""
        return f"value - {self.low!r}::DOUBLE" if self.more_is_worse else f"{self.high!r}::DOUBLE - value"

    @property
    def is_endless(self) -> bool:
        """Whether a value may be as bad as it likes."""
        return math.isinf(self.highest)

    @property
    def highest(self) -> float:
        """The highest possible value of that."""
        return self.high - self.low

    def turned(self, value: float) -> float:
        """Return how bad a value is; the value, of how bad it is."""
        return value - self.low if self.more_is_worse else self.high - value

    def back(self, bad: float) -> float:
        """Return the value that is so bad."""
        return self.low + bad if self.more_is_worse else self.high - bad


class _Slot(NamedTuple):
    """The sessions of a stream in a slot: how many, and their mean up to a cap."""

    number: int
    mean: float


class _Reference(NamedTuple):
    """What a stream was before a window: with values up to a cap, and the mean without one."""

    before: PriorMean
    mean: float


class _Pauses(NamedTuple):
    """Sessions of a stream: how many, when the first and the last began, the longest pause, the last id."""

    number: int
    first_ns: int
    last_ns: int
    longest_s: float
    last: str

    def with_later(self, later: _Pauses | None) -> _Pauses:
        """Return these and later ones as one."""
        if later is None:
            return self
        between_s = (later.first_ns - self.last_ns) / 1e9
        longest_s = max(self.longest_s or 0.0, between_s, later.longest_s or 0.0)
        return _Pauses(self.number + later.number, self.first_ns, later.last_ns, longest_s, later.last)


class _Started(NamedTuple):
    """An alarm that starts, and of which cause it is one."""

    alarm: Alarm
    cluster: Cluster | None


class AlarmChange(NamedTuple):
    """The alarms of one cause, all of them, when the first started or the last one ended."""

    alarms: tuple[Alarm, ...]
    is_over: bool


class Alerts:
    """The alerts of the settings over the sessions that are watched; the database has their state.

    Nothing before `since_ns` starts an alarm. Raises FieldError for a condition on what is not measured.
    """

    def __init__(
        self,
        rules: Sequence[AlertRule],
        prepared: Prepared,
        started_ns: int,
        origin: OriginFilter | None = None,
    ) -> None:
        self._gates = prepared.key
        self._started_ns = started_ns
        self._origin = OriginFilter.PRODUCTION if origin is None else origin
        self._before: dict[str, tuple[int, Any]] = {}  # what is read once in a slot, and its window
        self._rules = [(canonical(one.model_dump()), one) for one in rules]
        self._measures = {
            one.when: _measure(f"alerts[{number}].when", one.when, condition, prepared)
            for number, (_, one) in enumerate(self._rules)
            if not isinstance(condition := one.condition, Silence)
        }

    def look(
        self, store: Store, now_ns: int, since_ns: int | None, among: Sequence[str] | None = None
    ) -> list[AlarmChange]:
        """Write which alarms start and end, within the caller's transaction; return their changes.

        `among` are the ids of the only sessions that count.
        """
        changes = end_removed(store, {key for key, _ in self._rules}, now_ns)
        open_rows = _open_alarms(store)
        ended: dict[tuple[str, str], Alarm] = {}
        for key, rule in self._rules:
            on = {one.stream: one for rule_key, one in open_rows if rule_key == key}
            if isinstance(condition := rule.condition, Silence):
                started, over = self._silent(store, rule, condition, on, now_ns, among)
            else:
                started, over = self._shifted(store, key, rule, on, (now_ns, since_ns or 0), among)
            _write_started(store, key, started, on)
            changes += _changes(store, started, is_over=False)
            ended |= {(one.alarm_id, one.stream): one for one in over}
        _write_ended(store, ended.values(), now_ns)
        changes += _changes(store, [_Started(one, None) for one in ended.values()], is_over=True)
        return changes

    def _silent(
        self,
        store: Store,
        rule: AlertRule,
        condition: Silence,
        on: Mapping[str, Alarm],
        now_ns: int,
        among: Sequence[str] | None,
    ) -> tuple[list[_Started], list[Alarm]]:
        window_s, first_ns = rule.window_ns / 1e9, _first_ns(rule, now_ns)
        begin_ns = first_ns - BEFORE * rule.window_ns

        def pauses(begin_ns: int, end_ns: int) -> dict[str, _Pauses]:
            rows = self._rows(store, "alert_pauses", rule, among, begin=begin_ns, end=end_ns)
            return {stream: _Pauses(*values) for stream, *values in rows}

        before = self._of_slot(rule, first_ns, among, lambda: pauses(begin_ns, first_ns))
        recent = pauses(first_ns, now_ns + 1)
        started: list[_Started] = []
        over = []
        for stream in sorted({*before, *recent}):
            known = before[stream].with_later(recent.get(stream)) if stream in before else recent[stream]
            if stream in on:
                if known.last_ns > on[stream].started_ns:
                    over.append(on[stream])
                continue
            if known.number < rule.min_sessions:
                continue
            quiet_s = (now_ns - max(known.last_ns, self._started_ns)) / 1e9
            mean_s = (known.last_ns - known.first_ns) / 1e9 / (known.number - 1)
            usual_s = longest_usual_pause(known.longest_s, mean_s, window_s)
            limit_s = max(condition.least_s, usual_s)
            if quiet_s > limit_s:
                alarm = Alarm(
                    "", rule.when, rule.by, stream, None, (), now_ns, None, known.last_ns, known.number,
                    quiet_s, quiet_s, limit_s, None, "s", self._filters(rule, stream, begin_ns),
                    (known.last,),
                )  # fmt: skip
                started.append(_Started(alarm, None))
        return _of_one_cause(started, {}), over

    def _shifted(
        self,
        store: Store,
        key: str,
        rule: AlertRule,
        on: Mapping[str, Alarm],
        times: tuple[int, int],
        among: Sequence[str] | None,
    ) -> tuple[list[_Started], list[Alarm]]:
        now_ns, since_ns = times
        measure, condition = self._measures[rule.when], rule.condition
        slot_ns, first_ns = rule.window_ns // SLOTS, _first_ns(rule, now_ns)
        window = {"begin": first_ns, "end": now_ns + 1}
        references: dict[str, _Reference] = {}
        limits: dict[str, float] = {}
        caps: dict[str, float] = {}
        if isinstance(condition, Loss):
            references = self._of_slot(
                rule, first_ns, among, lambda: self._references(store, rule, among, first_ns)
            )
            for stream, one in references.items():
                if one.before.number >= rule.min_sessions:
                    limits[stream] = _limit(rule, condition, measure, one.before)
                caps[stream] = _cap(measure, one.mean)
        streams: dict[str, dict[int, _Slot]] = {}
        tables = {
            "caps": arrow_rows(list(caps.items()), {"stream": na.string(), "cap": na.float64()}),
        }
        for stream, slot, *values in self._rows(
            store, "alert_slots", rule, among, tables, **window, slot=slot_ns
        ):
            streams.setdefault(stream, {})[slot] = _Slot(*values)
        if isinstance(condition, Limit):
            limit = measure.turned(condition.limit)
            limits = dict.fromkeys(streams, limit)
            caps = dict.fromkeys(streams, _cap(measure, limit))
        after = _last_ends(store, key)
        from_slots = {}
        for stream, slots in streams.items():
            earliest_ns = max(since_ns, after.get(stream, 0))
            from_slot = max(0, -((first_ns - earliest_ns) // slot_ns))  # a slot counts whole or not at all
            is_new = stream not in on and stream in limits
            if is_new and _may_be_above(slots, from_slot, limits[stream], rule.min_sessions):
                from_slots[stream] = from_slot
        wanted = [*from_slots, *on]
        if not wanted:
            return [], []
        found_values: dict[str, list[Counter[float]]] = {
            one: [Counter() for _ in range(SLOTS)] for one in wanted
        }
        tables = {"wanted": arrow_column("stream", wanted)}
        for stream, slot, bad, number in self._rows(
            store, "alert_values", rule, among, tables, **window, slot=slot_ns
        ):
            found_values[stream][slot][min(bad, caps.get(stream, math.inf))] += number
        found: list[_Started] = []
        for stream, from_slot in from_slots.items():
            slots_of = found_values[stream][from_slot:]
            shown = shift(slots_of, limits[stream], _error(rule), rule.min_sessions)
            if shown is not None:
                start_ns = first_ns + (from_slot + shown.slot) * slot_ns
                before = measure.back(references[stream].mean) if stream in references else None
                alarm = self._alarm(rule, stream, (start_ns, now_ns), limits[stream], shown, before)
                found.append(_Started(alarm, None))
        over = [one for stream, one in on.items() if _is_back(one, measure, found_values[stream], rule)]
        explained = self._with_causes(store, rule, measure, found, first_ns - BEFORE * rule.window_ns)
        with_examples = [
            one._replace(alarm=self._with_examples(store, rule, one, among)) for one in explained
        ]
        return with_examples, over

    def _references(
        self, store: Store, rule: AlertRule, among: Sequence[str] | None, first_ns: int
    ) -> dict[str, _Reference]:
        """Return what each stream was in the windows before the one that begins at a time."""
        measure = self._measures[rule.when]
        rows = self._rows(
            store, "alert_before", rule, among,
            begin=first_ns - BEFORE * rule.window_ns, end=first_ns, times=CAP if measure.is_endless else None,
        )  # fmt: skip
        return {
            stream: _Reference(PriorMean(number, capped, deviation), mean)
            for stream, number, mean, capped, deviation in rows
        }

    def _of_slot(
        self, rule: AlertRule, first_ns: int, among: Sequence[str] | None, read: Callable[[], _Result]
    ) -> _Result:
        """Return what is read of the time before a window: once, as long as its first slot is the same."""
        if among is not None:
            return read()
        known = self._before.get(rule.when)
        if known is None or known[0] != first_ns:
            known = self._before[rule.when] = first_ns, read()
        return cast("_Result", known[1])

    def _alarm(
        self,
        rule: AlertRule,
        stream: str,
        times: tuple[int, int],
        limit: float,
        shown: Shift,
        before: float | None,
    ) -> Alarm:
        start_ns, now_ns = times
        measure = self._measures[rule.when]
        filters = self._filters(rule, stream, start_ns)
        if measure.name == PASSED:
            filters["verdict"] = "failed"
        elif measure.name in _OF_SESSIONS:
            side = "over" if measure.more_is_worse else "under"
            filters[f"{side}_{measure.name}"] = repr(round(measure.back(limit), 9))
        return Alarm(
            "", rule.when, rule.by, stream, None, (), now_ns, None, start_ns, sum(shown.values.values()),
            measure.back(mean_of(shown.values)),
            measure.back(max(limit, lower_bound(shown.values, _error(rule)))),
            measure.back(limit), before, measure.unit, filters, (),
        )  # fmt: skip

    def _filters(self, rule: AlertRule, stream: str, since_ns: int) -> dict[str, str]:
        """Return what chooses the sessions of a stream since a time, as the parameters of their list."""
        of_stream = {} if rule.by is None or not stream.strip() else {str(rule.by): stream}
        return {**of_stream, "since": iso(since_ns), "origin": str(self._origin)}

    def _rows(
        self,
        store: Store,
        name: str,
        rule: AlertRule,
        among: Sequence[str] | None,
        tables: Mapping[str, Any] = {},
        **parameters: Any,
    ) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a statement about the sessions of an alert; `tables` are ours that it reads."""
        stream, chosen = _STREAMS[rule.by], "" if among is None else "AND session_id IN (FROM among)"
        if name == "alert_pauses":
            text = sql(name).format(stream=stream, chosen=chosen)
        else:
            measure = self._measures[rule.when]
            sessions = sql("alert_sessions").format(
                stream=stream, bad=measure.bad, values=measure.values, chosen=chosen
            )
            text = sql(name).format(sessions=sessions)
            of_measure = {"gates": self._gates, "metric": measure.name}
            parameters |= {one: value for one, value in of_measure.items() if f"${one}" in text}
        if among is not None:
            tables = {**tables, "among": arrow_column("session_id", list(among))}
        return store.query(text, {**parameters, "origin": str(self._origin)}, **tables)

    def _with_causes(
        self, store: Store, rule: AlertRule, measure: _Measure, started: list[_Started], begin_ns: int
    ) -> list[_Started]:
        """Return alarms that start with their causes: of failures those that `explain` finds."""
        named = "" if measure.name == PASSED else f"{measure.name}:"
        is_explained = measure.name not in _OF_SESSIONS
        if not started or not is_explained:
            return _of_one_cause(started, {})
        since_ns = min(one.alarm.since_ns for one in started)
        by_stream: dict[str, list[Graded]] = {}
        before: list[Graded] = []
        recent = self._graded(store, rule, [one.alarm.stream for one in started], begin_ns)
        for stream, start_ns, one in recent:
            if start_ns < since_ns:
                before.append(one)
            else:
                by_stream.setdefault(stream, []).append(one)
        every = [one for each in by_stream.values() for one in each]
        clusters = [
            one
            for one in ranked(
                store,
                explain(store, every),
                len(every),
                [one for one in before if one.verdict in FAILING],
                len(before),
            )
            if any(named in reason for reason, _ in one.cluster.reasons) or not named
        ]
        found: dict[str, Cluster] = {}
        for stream, sessions in by_stream.items():
            ids = {one.session_id for one in sessions}

            def excess(one: Ranked, ids: set[str] = ids) -> float:
                here = sum(session.session_id in ids for session in one.cluster.sessions)
                return here - one.expected * len(ids) / len(every)

            best = max(clusters, key=excess, default=None)
            if best is not None and excess(best) > 0:
                found[stream] = best.cluster
        return _of_one_cause(started, found)

    def _graded(
        self, store: Store, rule: AlertRule, streams: Sequence[str], begin_ns: int
    ) -> Iterator[tuple[str, int, Graded]]:
        """Yield the newest sessions of streams with their grades, each with its stream and its start."""
        rows = store.query(
            f"SELECT session_id, coalesce({_STREAMS[rule.by]}, ''), start_ns FROM derived.sessions "  # noqa: S608 (ours)
            f"WHERE start_ns >= $begin AND coalesce({_STREAMS[rule.by]}, '') IN (FROM wanted) "
            "ORDER BY start_ns DESC LIMIT $limit",
            {"begin": begin_ns, "limit": _MOST_EXPLAINED * (BEFORE + 1)},
            wanted=arrow_column("stream", list(streams)),
        )
        of = {session_id: (stream, start_ns) for session_id, stream, start_ns in rows}
        chosen = with_views(
            "SELECT * FROM {grades} WHERE shown AND session_id IN (SELECT unnest($session_ids))"
        )
        for one in graded_sessions(store, chosen, {"session_ids": list(of)}):
            stream, start_ns = of[one.session_id]
            yield stream, start_ns, one

    def _with_examples(
        self, store: Store, rule: AlertRule, started: _Started, among: Sequence[str] | None
    ) -> Alarm:
        """Return an alarm with sessions that show it: of its cause, else the worst."""
        alarm = started.alarm
        rows = self._rows(
            store, "alert_examples", rule, among,
            begin=alarm.since_ns, end=alarm.started_ns + 1, one=alarm.stream,
            limit=_EXAMPLES if started.cluster is None else _MOST_EXPLAINED,
        )  # fmt: skip
        ids = [session_id for (session_id,) in rows]
        if started.cluster is not None:
            of_cause = {one.session_id for one in started.cluster.sessions}
            ids.sort(key=lambda one: one not in of_cause)
        return alarm._replace(examples=tuple(ids[:_EXAMPLES]))


def _measure(where: str, text: str, condition: Limit | Loss, prepared: Prepared) -> _Measure:
    """Return what an alert measures. Raises FieldError if that cannot be."""
    name = condition.metric
    metrics = {one.name: one for one in (*prepared.plan.gates, *prepared.plan.requested)}
    is_worse: bool | None = True
    if name == PASSED:
        values, unit, bounds, is_worse = sql("alert_passed"), "share", (0.0, 1.0), False
    elif name in _OF_SESSIONS:
        column, unit = _OF_SESSIONS[name]
        values = f"SELECT session_id, {column} AS value FROM derived.sessions WHERE start_ns >= $begin"  # noqa: S608 (ours)
        bounds = (0.0, math.inf)
    elif name in metrics:
        found = metrics[name]
        values, unit, bounds = sql("alert_metric"), found.unit, found.bounds
        is_worse = None if found.higher_is_better is None else not found.higher_is_better
    else:
        known = ", ".join(dict.fromkeys((PASSED, *_OF_SESSIONS, *metrics)))
        raise FieldError(where, f"{name} is not measured; expected one of {known}", repr(text))
    if isinstance(condition, Limit):
        is_worse = condition.is_above
    if is_worse is None:
        raise FieldError(where, f"{name} has no better direction: expected < or >", repr(text))
    measure = _Measure(name, values, unit, *bounds, is_worse)
    if math.isinf(bounds[0] if is_worse else bounds[1]):
        side = "lowest" if is_worse else "highest"
        raise FieldError(where, f"{name} has no {side} value, which this needs", repr(text))
    if isinstance(condition, Limit) and not 0 < measure.turned(condition.limit) < measure.highest:
        low, high = bounds
        raise FieldError(where, f"expected a limit between {low:g} and {high:g}", repr(text))
    if isinstance(condition, Loss) and condition.unit == "point" and unit != "share":
        raise FieldError(where, f"{name} has no points: expected %, or {unit}", repr(text))
    return measure


def _error(rule: AlertRule) -> float:
    """Return the error of each test of an alert: half of it, where what was before may err, too."""
    error = error_of(rule.window_ns / 1e9)
    return error / 2 if isinstance(rule.condition, Loss) else error


def _first_ns(rule: AlertRule, now_ns: int) -> int:
    """Return when the first slot of the window begins: slots begin at multiples of their length."""
    slot_ns = rule.window_ns // SLOTS
    return now_ns - now_ns % slot_ns - (SLOTS - 1) * slot_ns


def _cap(measure: _Measure, usual: float) -> float:
    """Return how bad a session counts at most; of values with bounds, as bad as they can be."""
    return CAP * usual if measure.is_endless else math.inf


def _limit(rule: AlertRule, condition: Loss, measure: _Measure, before: PriorMean) -> float:
    """Return how bad the mean of a stream may be, given what was before."""
    upper = upper_bound(before, _error(rule), measure.highest)
    if condition.unit == "%":
        # Of what is worse if there is more of it, the bound as a whole; else a share of the mean before.
        lost = upper if measure.more_is_worse else measure.back(before.mean)
        return upper + condition.margin * lost
    return upper + condition.margin


def _may_be_above(slots: Mapping[int, _Slot], first: int, limit: float, least: int) -> bool:
    """Return whether the mean since the start of a slot is above a limit, so that its values are needed."""
    number, total = 0, 0.0
    for slot in range(SLOTS - 1, first - 1, -1):
        if slot in slots:
            number += slots[slot].number
            total += slots[slot].number * slots[slot].mean
            if number >= least and total > limit * number:
                return True
    return False


def _is_back(alarm: Alarm, measure: _Measure, slots: Sequence[Mapping[float, int]], rule: AlertRule) -> bool:
    """Return whether the mean of the window is within the limit with which an alarm started."""
    limit = measure.turned(alarm.limit)
    cap = _cap(measure, limit if alarm.before is None else measure.turned(alarm.before))
    every: Counter[float] = Counter()
    for slot in slots:
        for value, number in slot.items():
            every[min(value, cap)] += number
    return sum(every.values()) >= rule.min_sessions and mean_of(every) <= limit


def _of_one_cause(started: Sequence[_Started], found: Mapping[str, Cluster]) -> list[_Started]:
    """Return alarms with their causes; those with one cause, or without any, have one id."""
    ids: dict[str | None, str] = {}
    made = []
    for alarm, _ in started:
        cluster = found.get(alarm.stream)
        named = None if cluster is None else cluster.what
        details = () if cluster is None else tuple(
            f"{fact.text}: {fact.here} of {fact.of}; {fact.passing} of {fact.of_passing} that pass"
            for fact in cluster.facts[:_DETAILS]
        )  # fmt: skip
        alarm_id = ids.setdefault(named, uuid.uuid4().hex)
        made.append(_Started(alarm._replace(alarm_id=alarm_id, cause=named, details=details), cluster))
    return made


def _open_alarms(store: Store) -> list[tuple[str, Alarm]]:
    """Return the alarms that are on, each with the alert that started it."""
    rules = {
        (alarm_id, stream): rule
        for alarm_id, stream, rule in store.query(
            "SELECT alarm_id, stream, rule FROM alarms WHERE ended_ns IS NULL"
        )
    }
    found = stored_alarms(store, limit=len(rules)) if rules else []
    return [(rules[one.alarm_id, one.stream], one) for one in found if (one.alarm_id, one.stream) in rules]


def _last_ends(store: Store, key: str) -> dict[str, int]:
    """Return when the last alarm of each stream ended: what was before is not told again."""
    return dict(
        store.query(
            "SELECT stream, max(ended_ns) FROM alarms "
            "WHERE rule = $rule AND ended_ns IS NOT NULL GROUP BY stream",
            {"rule": key},
        )
    )


def _write_started(store: Store, key: str, started: list[_Started], on: Mapping[str, Alarm]) -> None:
    """Write alarms; one whose cause is on has the id of that."""
    ids = {one.cause: one.alarm_id for one in on.values() if one.cause is not None}
    for number, (alarm, cluster) in enumerate(started):
        if joined := ids.get(alarm.cause or ""):
            alarm = alarm._replace(alarm_id=joined)
            started[number] = _Started(alarm, cluster)
        store.query(
            "INSERT INTO alarms VALUES ($alarm_id, $alert, $rule, $by, $stream, $cause, $details, $started, "
            "NULL, $since, $sessions, $value, $bound, $limit, $before, $unit, $filters)",
            {
                "alarm_id": alarm.alarm_id,
                "alert": alarm.alert,
                "rule": key,
                "by": alarm.stream_by,
                "stream": alarm.stream,
                "cause": alarm.cause,
                "details": orjson.dumps(alarm.details).decode(),
                "started": alarm.started_ns,
                "since": alarm.since_ns,
                "sessions": alarm.sessions,
                "value": alarm.value,
                "bound": alarm.bound,
                "limit": alarm.limit,
                "before": alarm.before,
                "unit": alarm.unit,
                "filters": canonical(dict(alarm.filters)),
            },
        )
        for place, session_id in enumerate(alarm.examples):
            store.query(
                "INSERT INTO alarm_sessions VALUES ($alarm_id, $stream, $place, $session_id)",
                {
                    "alarm_id": alarm.alarm_id,
                    "stream": alarm.stream,
                    "place": place,
                    "session_id": session_id,
                },
            )
        _log.warning("alarm: %s: %s: %s", alarm.alert, alarm.of, alarm.text)


def _write_ended(store: Store, ended: Any, now_ns: int) -> None:
    for one in ended:
        store.query(
            "UPDATE alarms SET ended_ns = $now WHERE alarm_id = $alarm_id AND stream = $stream",
            {"now": now_ns, "alarm_id": one.alarm_id, "stream": one.stream},
        )
        _log.warning("alarm is over: %s: %s", one.alert, one.of)


def end_removed(store: Store, rules: Collection[str], now_ns: int) -> list[AlarmChange]:
    """End the alarms of alerts that the settings do not have any more; return their changes.

    To be called within the caller's transaction. `rules` are the alerts that there are, as JSON.
    """
    gone = [one for rule, one in _open_alarms(store) if rule not in rules]
    _write_ended(store, gone, now_ns)
    return _changes(store, [_Started(one, None) for one in gone], is_over=True)


def _changes(store: Store, alarms: Sequence[_Started], *, is_over: bool) -> list[AlarmChange]:
    """Return what is to be told of alarms: of a cause when its first alarm starts and its last one ends."""
    changes = []
    new = Counter(one.alarm.alarm_id for one in alarms)
    for alarm_id, number in new.items():
        every = stored_alarms(store, alarm_id)
        is_on = any(one.ended_ns is None for one in every)
        if (is_over and not is_on) or (not is_over and len(every) == number):
            changes.append(AlarmChange(tuple(every), is_over))
    return changes
