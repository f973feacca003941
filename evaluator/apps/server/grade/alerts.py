"""The alerts of the settings: which streams of sessions are worse than they should be, told once each.

A limit holds for the mean of a window, without a test; `worse` is the test of
`evaluator/statistics/shifts.py`, over a window, against the seven before it; silence is a pause longer than
usual. The alarms of one look with one cause are one message, a body as of Standard Webhooks or a text as
Slack has it; a stream that fails by a cause which is on joins it. All state is in the database, so that a
restart neither repeats nor loses an alarm.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from spangrade.evaluator.apps.server.grade.options import Pages, WebhookFormat
from spangrade.evaluator.apps.server.grade.tables import sql
from spangrade.evaluator.apps.server.grade.webhook import escaped
from spangrade.evaluator.grading.alerts import AlertRule, Limit, Silence, Worse
from spangrade.evaluator.grading.prepare import Prepared
from spangrade.evaluator.results.alarms import Alarm, AlarmChange, iso, seconds_text, stored_alarms, time_text
from spangrade.evaluator.results.origin import OriginFilter
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.statistics.clusters import FAILING
from spangrade.evaluator.statistics.comparison.graded import graded_sessions
from spangrade.evaluator.statistics.comparison.sample import PASSED
from spangrade.evaluator.statistics.failure_causes.causes import cause_keys, part_text
from spangrade.evaluator.statistics.shifts import evidence, longest_usual_pause, recovered, rise, threshold
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column

_BEFORE = 7  # windows before the one that is looked at, with which it is compared
_SLOTS = 24  # of a window: it begins with one of them, so that what was before is read once in each
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
_MOST_EXPLAINED = 2_000  # sessions of an alarm whose failures are counted by cause, the newest
_EXAMPLES = 5
_Row = tuple[Any, ...]  # of a session: its stream, its start, its id and its value

_Usual = tuple[int, float, float]  # number of sessions before, a limit, and the share beyond it

_log = logging.getLogger("spangrade")
_MOST_STREAMS = 20  # in the text of a message


class _Measure(NamedTuple):
    """What an alert measures: the values of sessions in SQL, and whether more is worse."""

    name: str
    values: str
    unit: str
    more_is_worse: bool

    def is_bad(self, value: float, limit: float) -> bool:
        """Return whether a value is beyond a limit."""
        return value > limit if self.more_is_worse else value < limit

    def shown(self, value: float) -> str:
        """Return a value for people."""
        return f"{value:.3g}" if self.unit in ("", "1", "share") else f"{value:.3g} {self.unit}"

    def steps(self, sessions: Iterable[_Row], limit: float, before: float | None) -> list[float]:
        """Return what each session adds: to the evidence, or by how much it is beyond a limit."""
        if before is None:
            sign = 1 if self.more_is_worse else -1
            return [sign * (value - limit) for *_, value in sessions]
        bad, good = evidence(before)
        return [bad if self.is_bad(value, limit) else good for *_, value in sessions]


class _Look(NamedTuple):
    """A look at an alert: its key, the window's begin, now, which sessions count, what is on by stream."""

    store: Store
    key: str
    rule: AlertRule
    begin_ns: int
    now_ns: int
    since_ns: int
    origin: str
    among: Sequence[str] | None
    on: Mapping[str, Alarm]

    @property
    def first_ns(self) -> int:
        """When what is before the window begins."""
        return self.begin_ns - _BEFORE * self.rule.window_ns

    def of(self, stream: str) -> str:
        """Return the sessions of a stream in words: `desk-api sessions`."""
        by = self.rule.by
        return "sessions" if by is None else f"{stream.strip() or f'unknown {by}'} sessions"

    def alarm(self, stream: str, cause: str | None, since_ns: int, *values: Any, **filters: str) -> Alarm:
        """Return an alarm that starts now; `values` are those up to its text, then the examples."""
        rule, (*known, examples) = self.rule, values
        by = {} if rule.by is None or not stream.strip() else {str(rule.by): stream}
        filters = {**by, "since": iso(since_ns), "origin": self.origin, **filters}
        first = uuid.uuid4().hex, rule.when, self.key, rule.by, stream, cause, self.now_ns, None, since_ns
        return Alarm._make((*first, *known, filters, examples))


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
        self._before: dict[str, tuple[int, Mapping[str, _Usual]]] = {}  # by alert, with the begin
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
        every = stored_alarms(store, only_on=True)
        for key, rule in self._rules:
            slot_ns, on = rule.window_ns // _SLOTS, {one.stream: one for one in every if one.rule == key}
            begin_ns = (now_ns - rule.window_ns) // slot_ns * slot_ns
            look = _Look(store, key, rule, begin_ns, now_ns, since_ns or 0, str(self._origin), among, on)
            found = list(self._silent(look) if isinstance(rule.condition, Silence) else self._bad(look))
            changes += _write_started(look, [one for one in found if one.stream not in on])
            changes += _write_ended(store, [one for one in found if one.stream in on], now_ns)
        return changes

    def _silent(self, look: _Look) -> Iterator[Alarm]:
        """Yield the alarms of streams that are silent for longer than usual, and those that are over."""
        rule, rows = look.rule, self._rows(look, sql("alert_pauses"), look.first_ns, look.now_ns + 1)
        chances = len(rows) * rule.per_false_alarm_ns / (_BEFORE * rule.window_ns)
        for stream, number, first_ns, last_ns, longest_s, last in rows:
            if stream in look.on:
                if last_ns > look.on[stream].started_ns:
                    yield look.on[stream]
            elif number >= rule.min_sessions:
                quiet_s = (look.now_ns - max(last_ns, self._started_ns)) / 1e9
                mean_s = (last_ns - first_ns) / 1e9 / (number - 1)
                limit_s = longest_usual_pause(longest_s, mean_s, chances)
                if isinstance(rule.condition, Silence):
                    limit_s = max(rule.condition.least_s, limit_s)
                if quiet_s > limit_s:
                    since = time_text(last_ns, look.now_ns)
                    text = f"no {look.of(stream)} since {since} (limit {seconds_text(limit_s)})"
                    yield look.alarm(stream, None, last_ns, number, quiet_s, limit_s, None, text, (last,))

    def _bad(self, look: _Look) -> Iterator[Alarm]:
        """Yield the alarms of streams that are beyond a limit, or worse, and those that are over."""
        rule, measure = look.rule, self._measures[look.rule.when]
        usual = self._usual(look) if isinstance(rule.condition, Worse) else {}
        windows = rule.per_false_alarm_ns / (_BEFORE * rule.window_ns)
        height = threshold(windows * sum(number for number, *_ in usual.values()))
        after = _last_ends(look)
        rows = self._rows(look, measure.values, look.begin_ns, look.now_ns + 1)
        for stream, group in groupby(rows, key=itemgetter(0)):
            sessions = list(group)
            if (alarm := look.on.get(stream)) is not None:
                before = None if alarm.before is None else recovered(alarm.before, alarm.value)
                steps = measure.steps(sessions, alarm.limit, before)
                later = steps[sum(one[1] <= alarm.started_ns for one in sessions) :]
                is_within = len(later) >= rule.min_sessions and sum(steps) <= 0
                if is_within if before is None else rise(-one for one in later)[0] >= height:
                    yield alarm
                continue
            sessions = [one for one in sessions if one[1] >= max(look.since_ns, after.get(stream, 0))]
            if isinstance(rule.condition, Limit):
                number, limit, before = len(sessions), rule.condition.limit, None
            else:
                number, limit, before = usual.get(stream, (0, 0.0, 0.0))
            steps = measure.steps(sessions, limit, before)
            total, place = rise(steps)
            if number >= rule.min_sessions and (sum(steps) > 0 if before is None else total >= height):
                yield self._alarm(look, stream, sessions[place:], limit, before)

    def _usual(self, look: _Look) -> Mapping[str, _Usual]:
        """Return what each stream was in the windows before: read once for windows that begin alike."""
        known, measure = self._before.get(look.key), self._measures[look.rule.when]
        if known is None or known[0] != look.begin_ns or look.among is not None:
            text = sql("alert_before").replace("{sessions}", measure.values)
            sign = 1 if measure.more_is_worse else -1
            rows = self._rows(look, text, look.first_ns, look.begin_ns, sign=sign)
            known = self._before[look.key] = look.begin_ns, {stream: (*one,) for stream, *one in rows}
        return known[1]

    def _alarm(
        self, look: _Look, stream: str, sessions: Sequence[_Row], limit: float, before: float | None
    ) -> Alarm:
        """Return an alarm over the sessions since a stream became bad, in words."""
        measure, number, since_ns = self._measures[look.rule.when], len(sessions), sessions[0][1]
        bad = [session_id for _, _, session_id, value in reversed(sessions) if measure.is_bad(value, limit)]
        share, of = f"{len(bad):,} of {number:,}", look.of(stream)
        value = len(bad) / number if before is not None else sum(one for *_, one in sessions) / number
        since = f"since {time_text(since_ns, look.now_ns)}"
        usual = f"(limit {measure.shown(limit)})" if before is None else f"({before:.0%} before)"
        if measure.name == PASSED and not measure.more_is_worse:
            usual = f"(limit {1 - limit:.0%})" if before is None else usual
            text, filters = f"{share} {of} failed {since} {usual}", {"verdict": "failed"}
        elif before is None:
            mean = f"{measure.name} is {measure.shown(value)} on average"
            text, filters = f"{mean} in {number:,} {of} {since} {usual}", {}
        else:
            beyond = f"{'above' if measure.more_is_worse else 'below'} {measure.shown(limit)}"
            text, filters = f"{share} {of} have {measure.name} {beyond} {since} {usual}", {}
        cause, of_cause = None, frozenset[str]()
        if measure.name in _OF_SESSIONS:
            filters[f"{'over' if measure.more_is_worse else 'under'}_{measure.name}"] = repr(round(limit, 9))
        else:
            cause, of_cause = _cause(look.store, bad[:_MOST_EXPLAINED])
            text += f", {len(of_cause):,} by {cause}" if cause else ""
        examples = tuple(sorted(bad, key=lambda one: one not in of_cause)[:_EXAMPLES])
        return look.alarm(stream, cause, since_ns, number, value, limit, before, text, examples, **filters)

    def _rows(self, look: _Look, text: str, begin_ns: int, end_ns: int, **parameters: Any) -> Sequence[_Row]:
        """Return the rows of a statement about the sessions of an alert."""
        chosen = "" if look.among is None else "AND session_id IN (FROM among)"
        text = text.replace("{stream}", _STREAMS[look.rule.by]).replace("{chosen}", chosen)
        known = {"origin": look.origin, "gates": self._gates, "begin": begin_ns, "end": end_ns}
        if look.rule.when in self._measures:
            known["metric"] = self._measures[look.rule.when].name
        parameters |= {name: value for name, value in known.items() if f"${name}" in text}
        tables = {} if look.among is None else {"among": arrow_column("session_id", list(look.among))}
        return look.store.query(text, parameters, **tables)


def _measure(where: str, text: str, condition: Limit | Worse, prepared: Prepared) -> _Measure:
    """Return what an alert measures. Raises FieldError if that cannot be."""
    name = condition.metric
    metrics = {one.name: one for one in (*prepared.plan.gates, *prepared.plan.requested)}
    is_worse: bool | None = True
    low, high = 0.0, float("inf")
    if name == PASSED:
        values, unit, high, is_worse = sql("alert_passed"), "share", 1.0, False
    elif name in _OF_SESSIONS:
        column, unit = _OF_SESSIONS[name]
        values = f"SELECT session_id, {column} AS value FROM derived.sessions WHERE start_ns >= $begin"  # noqa: S608 (ours)
    elif name in metrics:
        found = metrics[name]
        values, unit, (low, high) = sql("alert_metric"), found.unit, found.bounds
        is_worse = None if found.higher_is_better is None else not found.higher_is_better
    else:
        known = ", ".join(dict.fromkeys((PASSED, *_OF_SESSIONS, *metrics)))
        raise FieldError(where, f"{name} is not measured; expected one of {known}", repr(text))
    if isinstance(condition, Limit):
        is_worse = condition.is_above
        if not low <= condition.limit <= high:
            raise FieldError(where, f"expected a limit between {low:g} and {high:g}", repr(text))
    if is_worse is None:
        raise FieldError(where, f"{name} has no better direction: expected < or >", repr(text))
    return _Measure(name, sql("alert_values").replace("{values}", values), unit, is_worse)


def _cause(store: Store, session_ids: Sequence[str]) -> tuple[str | None, frozenset[str]]:
    """Return what most failures among some sessions have in common, in words, and which they are."""
    grades = with_views("SELECT * FROM {grades} WHERE shown AND session_id IN (SELECT unnest($session_ids))")
    found = graded_sessions(store, grades, {"session_ids": list(session_ids)})
    keys = cause_keys(store, [one for one in found if one.verdict in FAILING])
    parts = Counter(part for key in keys.values() for part in sorted(key))
    if not parts:
        return None, frozenset()
    ((name, what), _), *_ = sorted(parts.items(), key=lambda one: (-one[1], one[0]))
    return part_text((name, what)), frozenset(one for one, key in keys.items() if (name, what) in key)


def _last_ends(look: _Look) -> dict[str, int]:
    """Return when the last alarm of each stream ended: what was before is not told again."""
    query = "SELECT stream, max(ended_ns) FROM alarms WHERE rule = $rule GROUP BY stream"
    return {stream: end_ns or 0 for stream, end_ns in look.store.query(query, {"rule": look.key})}


def _write_started(look: _Look, started: Sequence[Alarm]) -> list[AlarmChange]:
    """Write alarms, those with one cause by one id; return the changes of causes that were not on."""
    known = {one.cause: one.alarm_id for one in look.on.values() if one.cause is not None}
    ids: dict[str | None, str] = {}
    for alarm in started:
        alarm_id = known.get(alarm.cause or "") or ids.setdefault(alarm.cause, alarm.alarm_id)
        row = {**alarm._asdict(), "alarm_id": alarm_id, "filters": canonical(dict(alarm.filters))}
        row["limit_value"], examples = row.pop("limit"), row.pop("examples")
        look.store.query("INSERT INTO alarms BY NAME SELECT unnest($row)", {"row": row})
        look.store.query(
            "INSERT INTO alarm_sessions SELECT $id, $stream, unnest(range(len($ids))), unnest($ids)",
            {"id": alarm_id, "stream": alarm.stream, "ids": list(examples)},
        )
        _log.warning("alarm: %s: %s", alarm.alert, alarm.text)
    return [AlarmChange(tuple(stored_alarms(look.store, one)), is_over=False) for one in ids.values()]


def _write_ended(store: Store, ended: Sequence[Alarm], now_ns: int) -> list[AlarmChange]:
    """Write that alarms are over; return the changes of causes of which no alarm is on any more."""
    for one in ended:
        store.query(
            "UPDATE alarms SET ended_ns = $now WHERE alarm_id = $id AND stream = $stream",
            {"now": now_ns, "id": one.alarm_id, "stream": one.stream},
        )
        _log.warning("alarm is over: %s: %s", one.alert, one.text)
    every = [stored_alarms(store, one) for one in dict.fromkeys(one.alarm_id for one in ended)]
    return [AlarmChange(tuple(each), True) for each in every if not any(one.ended_ns is None for one in each)]


def end_removed(store: Store, rules: Collection[str], now_ns: int) -> list[AlarmChange]:
    """End the alarms of alerts that the settings do not have any more; return their changes.

    To be called within the caller's transaction. `rules` are the alerts that there are, as JSON.
    """
    gone = [one for one in stored_alarms(store, only_on=True) if one.rule not in rules]
    return _write_ended(store, gone, now_ns)


def change_id(change: AlarmChange) -> str:
    """Return the id of the message about a change: always the same for it."""
    parts = f"{change.alarms[0].alarm_id} {change.is_over}".encode()
    return f"msg_{hashlib.blake2b(parts, digest_size=16).hexdigest()}"


def change_body(
    change: AlarmChange, kind: WebhookFormat, now_ns: int, pages: Pages | None = None
) -> Mapping[str, Any]:
    """Return the body of the message about a change, as JSON values.

    `pages` are where messages lead; without them there are ids and no addresses.
    """
    if kind is WebhookFormat.SLACK:
        return {"text": _slack_text(change, pages)}
    first = change.alarms[0]
    return {
        "type": "alert.ended" if change.is_over else "alert.started",
        "timestamp": datetime.fromtimestamp(now_ns / 1e9, UTC).isoformat(),
        "data": {
            "alarm_id": first.alarm_id,
            "alert": first.alert,
            "cause": first.cause,
            "streams": [_stream(one, pages) for one in change.alarms],
        },
    }


def _stream(alarm: Alarm, pages: Pages | None) -> dict[str, Any]:
    found = alarm.to_json()
    for name in ("alarm_id", "alert", "cause", "filters"):
        del found[name]
    if pages is not None:
        found["sessions_url"] = pages.sessions(alarm.filters)
        found["example_urls"] = [pages.session(one) for one in alarm.examples]
    return found


def _slack_text(change: AlarmChange, pages: Pages | None) -> str:
    lines = [f"*{'Over' if change.is_over else 'Alarm'}: {escaped(change.alarms[0].alert)}*"]
    for alarm in change.alarms[:_MOST_STREAMS]:
        line = f"• {escaped(alarm.text)}"
        if pages is not None:
            links = [f"<{pages.sessions(alarm.filters)}|sessions>"]
            links += [f"<{pages.session(one)}|{n}>" for n, one in enumerate(alarm.examples, 1)]
            line += f" ({' '.join(links)})"
        lines.append(line)
    if (left := len(change.alarms) - _MOST_STREAMS) > 0:
        lines.append(f"… and {left:,} more")
    return "\n".join(lines)
