"""Grading sessions as they become idle, beside the processes that write them.

The database is open in short windows only: to derive, to read a batch of sessions, to write what they were
graded. Nothing that matters is kept in memory alone, so that the process can be killed at any moment.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import duckdb

from spangrade.evaluator.apps.server.grade import deliveries
from spangrade.evaluator.apps.server.grade.alerts import Alerts, change_body, change_id, end_removed
from spangrade.evaluator.apps.server.grade.deliveries import OTLP, SCORES, WEBHOOK, Counts
from spangrade.evaluator.apps.server.grade.failures import Failed, Failures
from spangrade.evaluator.apps.server.grade.options import WatchOptions, WebhookFormat
from spangrade.evaluator.apps.server.grade.progress import Moment, Progress, Waiting, contents
from spangrade.evaluator.apps.server.grade.record import Channels, WatchedGrade, record, record_unchanged
from spangrade.evaluator.apps.server.grade.send_scores import Sender
from spangrade.evaluator.apps.server.grade.tables import create_tables
from spangrade.evaluator.apps.server.grade.telemetry import Telemetry
from spangrade.evaluator.apps.server.grade.totals import Key, Total, counted_of, read_totals
from spangrade.evaluator.apps.server.grade.webhook import SECRET_VARIABLE, Webhook, secret_from_environment
from spangrade.evaluator.derive.session_rows import SessionRows, load_sessions
from spangrade.evaluator.derive.settings import NOT_CONFIGURED, Configured
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S, DatabaseFile
from spangrade.evaluator.derive.sync.update import HeldTraces, bring_up_to_date, is_behind
from spangrade.evaluator.derive.sync.workers import few_collections
from spangrade.evaluator.grading.grade import Coverage, grade_sessions
from spangrade.evaluator.grading.prepare import Prepared, prepare, try_queries
from spangrade.evaluator.grading.run import Grade, JudgeUsage, Run
from spangrade.evaluator.grading.selection import chosen_ids, is_sampled
from spangrade.evaluator.grading.spec import GradeSpec, Selection
from spangrade.evaluator.judge.choice import judge_of_run, use_judge
from spangrade.evaluator.judge.run import Spent, spent_since, total_spent
from spangrade.evaluator.metrics import Inconclusive
from spangrade.evaluator.results.alarms import AlarmChange, count_alarms
from spangrade.evaluator.results.origin import OriginFilter
from spangrade.evaluator.session import Session
from spangrade.tracer import semconv
from spangrade.tracer.base.errors import SpangradeError, StoreError, StoreLockedError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.quantities import seconds_of
from spangrade.tracer.span import Problem
from spangrade.tracer.store import Store
from spangrade.tracer.store.locks import deriving
from spangrade.tracer.store.spool import waiting

# Sessions that are read, graded and written at once, and how many spans and logs they have at most.
BATCH = 6_000
BATCH_RECORDS = 75_000
# With a judge. Its use is saved with the scores: if the process is killed, that of one batch is not in the
# day's budget. The answers are in the cache.
JUDGED_BATCH = 20
_MESSAGES = 100  # sent between two windows
_EVENTS = 50  # deliveries of events in one request
_HELD_BYTES = 8_000_000  # of what is derived, to build sessions that go on: two minutes of 33 spans a second
_DAY_NS = 86_400 * 10**9
_ALERTS_EVERY_NS = 60 * 10**9  # a look over 80,000 sessions a day takes 0.1 s of CPU for each alert

_log = logging.getLogger("spangrade")


class WatchSummary(NamedTuple):
    """What was graded since the start, what is waiting or was given up, and what the judge spent."""

    verdicts: Mapping[str, int]
    waiting: int
    deferred: int
    messages: Mapping[str, Counts]
    judge: Spent = Spent()
    first_due_ns: int | None = None  # when, by the steady clock, the first that waits is or was due
    failures: Mapping[Failed, int] = {}
    alarms: int = 0
    totals: Mapping[Key, Total] = {}

    def __str__(self) -> str:
        """Return it in one line: `3 sessions graded: 2 passed, 1 failed; 1 waiting; webhook: 1 given up`."""
        total = sum(self.verdicts.values())
        counts = ", ".join(f"{number} {verdict}" for verdict, number in self.verdicts.items())
        text = f"{total} {'session' if total == 1 else 'sessions'} graded{': ' if counts else ''}{counts}"
        if self.waiting:
            text += f"; {self.waiting} waiting until they are idle"
        if self.deferred:
            text += f"; {self.deferred} waiting for tomorrow's budget of the judge"
        for kind, (unsent, given_up) in sorted(self.messages.items()):
            parts = [f"{unsent} unsent"] * bool(unsent) + [f"{given_up} given up"] * bool(given_up)
            text += f"; {kind}: {', '.join(parts)}" if parts else ""
        return text


class _Batch(NamedTuple):
    """Sessions that are idle: the digests of those to be graded, the rows of those that changed, the others.

    `spent` is what the judge has spent today.
    """

    idle: Mapping[str, Waiting]
    digests: Mapping[str, str]
    changed: SessionRows
    unchanged: Mapping[str, Waiting]
    spent: Spent


class Watch:
    """Grades the sessions of a database as they become idle, each once for its content.

    `clock` returns the time in nanoseconds since the epoch, `steady` that of a clock that nobody sets.
    `on_problem` is called with what is odd about a dataset's rows. The settings `configured` are applied
    once, at the first look: later ones of another process are not undone.
    """

    def __init__(
        self,
        db: Path,
        prepared: Prepared,
        options: WatchOptions = WatchOptions(),
        *,
        webhook: Webhook | None = None,
        telemetry: Telemetry | None = None,
        scores: Sender | None = None,
        clock: Callable[[], int] = time.time_ns,
        steady: Callable[[], int] = time.monotonic_ns,
        on_problem: Callable[[Problem], None] = lambda _: None,
        configured: Configured = NOT_CONFIGURED,
    ) -> None:
        self._db = db
        self._configured = configured  # until it is applied
        self._prepared = prepared
        self._every_s = seconds_of(options.every_s)
        self._webhook = webhook
        self._telemetry = telemetry
        self._scores = scores
        self._clock = clock
        self._steady = steady
        self._on_problem = on_problem
        self._channels = Channels(
            webhook is not None and not options.alerts,
            telemetry is not None,
            scores is not None,
            options.webhook_format,
            options.pages,
        )
        select = prepared.spec.select
        self._since_ns, self._share = select.since_ns, select.share
        # What else chooses sessions is looked at once they are idle, and all that it is about has arrived.
        self._select = replace(select, since=None, sample=None, origin=None)
        idle_ns = int(seconds_of(options.idle_s) * 1e9)
        self._progress = Progress(
            prepared.key,
            idle_ns,
            self._includes,
            clock(),
            origin=select.origin or OriginFilter.PRODUCTION,
        )
        self._notify_since_ns = options.notify_since_ns
        self._alerts = (
            Alerts(options.alerts, prepared, self._clock(), select.origin) if options.alerts else None
        )
        self._alerts_looked_ns: int | None = None
        self._problem: str | None = None  # why the last look failed
        self._verdicts: Counter[str] = Counter()
        self._failures = Failures()
        self._deferred: set[str] = set()  # until the day ends
        self._spent = Spent()  # by the judge since the start
        self._day = 0
        self._totals_sent = False
        self._totals: tuple[int, Mapping[Key, Total]] = (-1, {})  # with the sessions that were graded then
        self._has_tables = False
        self._held = HeldTraces()
        self._file: tuple[int, int] | None = None  # the database's when it was looked at

    def run(
        self,
        stop: threading.Event,
        on_round: Callable[[WatchSummary], None] = lambda _: None,
        on_look: Callable[[str | None, WatchSummary | None], None] = lambda problem, summary: None,  # noqa: ARG005
    ) -> None:
        """Watch until `stop` is set; `on_round` is called after each look that graded a session.

        `on_look` is called after each look, with why it failed or with the summary. If the database stays
        locked, or something cannot be read or written, the next look tries again.
        """
        while not stop.is_set():
            before, summary, started_ns = self._verdicts.total(), None, self._steady()
            try:
                summary = self.round(stop)
            except (SpangradeError, duckdb.Error, OSError) as error:
                problem = str(error).splitlines()[0] if str(error) else type(error).__name__
                if problem != self._problem:  # else it was logged
                    _log.warning("%s", problem)
                self._problem = problem
            else:
                self._problem = None
                if self._verdicts.total() > before:
                    on_round(summary)
            on_look(self._problem, summary)
            stop.wait(self._pause_s(started_ns))

    def _pause_s(self, started_ns: int) -> float:
        """Return when to look again after a look: when the first session is due, if it is shortly before.

        A look that is a moment too early would have its session wait for the next one.
        """
        now_ns, pause_s = self._steady(), self._every_s
        next_s = pause_s - (now_ns - started_ns) / 1e9
        due_ns = self._progress.first_due_ns(self._deferred)
        due_s = math.inf if due_ns is None else (due_ns - now_ns) / 1e9
        is_about_then = -pause_s / 2 < due_s - next_s < pause_s / 8
        return max(due_s if is_about_then else next_s, pause_s / 10)

    @few_collections()
    def round(self, stop: threading.Event | None = None) -> WatchSummary:
        """Grade all sessions that are idle, send what is to be sent, and return the summary.

        With `stop` set it ends after the batch in progress. Raises StoreError if there is no database or it
        cannot be used.
        """
        stop = stop or threading.Event()
        batch = self._look(stop)
        if self._day != (today := self._clock() // _DAY_NS):
            self._deferred.clear()
            self._day = today
        self._grade_idle(stop, batch)
        if self._alerts is not None and not stop.is_set():
            self._alert(self._alerts)
        self._send(stop)
        return self.summary()

    def summary(self) -> WatchSummary:
        """Return what was graded since the start, and what waits; empty if there is no database yet."""
        counts: dict[str, Counts] = {}
        alarms, graded = 0, self._verdicts.total()
        if self._db.exists():
            with self._open() as store:
                self._create_tables(store)
                counts, alarms = deliveries.counts(store), count_alarms(store)
                if self._totals[0] != graded:
                    self._totals = graded, read_totals(store)
        idle = len(self._progress) - len(self._deferred)
        first_due_ns = self._progress.first_due_ns(self._deferred)
        return WatchSummary(
            dict(self._verdicts),
            idle,
            len(self._deferred),
            counts,
            self._spent,
            first_due_ns,
            dict(self._failures.counts),
            alarms,
            self._totals[1],
        )

    def close(self) -> None:
        """Close the connections."""
        if self._webhook is not None:
            self._webhook.close()
        if self._telemetry is not None:
            self._telemetry.close()
        if self._scores is not None:
            self._scores.close()

    def _now(self) -> Moment:
        return Moment(self._clock(), self._steady())

    def _open(self) -> Store:
        return Store.open(self._db, wait_s=RUN_WAIT_S)

    def _look(self, stop: threading.Event) -> _Batch | None:
        """Load the spool, derive, and find the sessions for which something has arrived.

        Return the first that are idle, if the database is open to read them.
        """
        db = self._db
        if not db.exists() and not waiting(db):
            raise StoreError(
                f"{db}: no such database: start `spangrade serve --only receive`, or import spans first"
            )
        file = _state(db)
        if file == self._file:
            with DatabaseFile(db).reading(wait_s=RUN_WAIT_S, derived=False) as store:
                if not is_behind(store, self._configured) and self._progress.is_current(store, self._now()):
                    return None
        with deriving(db, stop):
            bring_up_to_date(self._open, self._configured, held=self._held, stop=stop)
        self._file = file
        self._held.clear(_HELD_BYTES)
        self._configured = NOT_CONFIGURED
        with self._open() as store:
            self._create_tables(store)
            self._progress.look(store, self._now())
            is_any_idle = self._progress.is_any_idle(self._now(), self._deferred)
            return self._read(store, None) if is_any_idle and self._select == Selection() else None

    def _create_tables(self, store: Store) -> None:
        if not self._has_tables:
            create_tables(store)
            if self._alerts is None:  # the settings may have had alerts before
                with store.transaction():
                    self._tell(store, end_removed(store, (), now_ns := self._clock()), now_ns)
            self._has_tables = True

    def _includes(self, session_id: str, start_ns: int | None) -> bool:
        if self._since_ns is not None and start_ns is not None and start_ns < self._since_ns:
            return False
        return self._share is None or is_sampled(session_id, self._share)

    def _grade_idle(self, stop: threading.Event, batch: _Batch | None) -> None:
        """Grade the sessions that are idle, a batch at a time, until there is none or `stop` is set."""
        while not stop.is_set() and self._progress.is_any_idle(self._now(), self._deferred):
            if batch is None:
                chosen = self._chosen()
                with self._open() as store:
                    batch = self._read(store, chosen)
            if not batch.idle:
                return
            try_queries(DatabaseFile(self._db), self._prepared.metrics)
            graded, deferred, judge = self._grades(batch)
            with self._open() as store:
                self._write(store, batch, graded, deferred, judge)
                is_last = stop.is_set() or self._select != Selection()
                batch = None if is_last else self._read(store, None)  # once open: 40 ms for each batch

    def _read(self, store: Store, chosen: set[str] | None) -> _Batch:
        """Read the next sessions that are idle, of those that are chosen."""
        prepared, now = self._prepared, self._now()
        self._progress.look(store, now)
        size = JUDGED_BATCH if prepared.asks_judge else BATCH
        idle = self._progress.idle(now, size, BATCH_RECORDS, self._deferred)
        rows = load_sessions(store, [one for one in idle if chosen is None or one in chosen])
        known = contents(store, prepared.key, idle)
        digests = rows.digests()
        changed = {name for name, digest in digests.items() if known.get(name) != digest}
        unchanged = {name: idle[name] for name in digests.keys() - changed}
        return _Batch(idle, digests, rows.only(changed), unchanged, spent_on_day(store, now.time_ns))

    def _write(
        self,
        store: Store,
        batch: _Batch,
        graded: Sequence[WatchedGrade],
        deferred: Collection[str],
        judge: JudgeUsage,
    ) -> None:
        """Write the grades of a batch; those that are deferred wait for tomorrow's budget of the judge."""
        now_ns = self._clock()
        run = record(store, self._prepared, graded, judge, self._channels, now_ns, self._told_since_ns)
        record_unchanged(store, self._prepared.key, batch.unchanged)
        self._count(run)
        written = {str(one.session_id) for one in run.sessions}
        self._failures.add(
            store,
            {one.session_id: (one.grade, one.counted.labels) for one in graded if one.session_id in written},
        )
        self._spent = total_spent([self._spent, judge.spent])
        self._deferred.update(deferred)
        self._progress.finish({name: one for name, one in batch.idle.items() if name not in deferred})

    @property
    def _told_since_ns(self) -> int | None:
        """Nothing that ended before is told."""
        return self._progress.since_ns if self._notify_since_ns is None else self._notify_since_ns

    def _alert(self, alerts: Alerts) -> None:
        """Look whether an alarm starts or ends, at most once a minute."""
        now_ns, looked_ns = self._clock(), self._alerts_looked_ns
        if looked_ns is not None and 0 <= now_ns - looked_ns < _ALERTS_EVERY_NS:
            return
        chosen = self._chosen()
        among = None if chosen is None else sorted(chosen)
        with self._open() as store, store.transaction():
            self._tell(store, alerts.look(store, now_ns, self._told_since_ns, among), now_ns)
        self._alerts_looked_ns = now_ns

    def _tell(self, store: Store, changes: Sequence[AlarmChange], now_ns: int) -> None:
        """Write what is to be sent of alarms that start or end."""
        if self._webhook is not None:
            form, pages = self._channels.webhook_format, self._channels.pages
            messages = [
                (change_id(one), WEBHOOK, "", change_body(one, form, now_ns, pages)) for one in changes
            ]
            deliveries.add(store, messages, now_ns)

    def _chosen(self) -> set[str] | None:
        """Return the ids of the sessions that the selection chooses; None is all."""
        if self._select == Selection():
            return None
        with Store.open(self._db, read_only=True, confined=True, wait_s=RUN_WAIT_S) as store:
            return chosen_ids(store, self._select)

    def _grades(self, batch: _Batch) -> tuple[list[WatchedGrade], set[str], JudgeUsage]:
        """Grade the sessions of a batch with what is left of the judge's budget of the day.

        Return the grades, and the ids of the sessions for which it did not suffice. A session is made of its
        rows when it is graded, and forgotten then.
        """
        prepared, spent = self._prepared, batch.spent
        options = prepared.spec.judge
        if options.max_calls is not None:
            options = replace(options, max_calls=max(0, options.max_calls - spent.calls))
        if options.max_cost_usd is not None:  # of an unknown price nothing more may be spent
            left = 0.0 if spent.cost_usd is None else max(0.0, options.max_cost_usd - spent.cost_usd)
            options = replace(options, max_cost_usd=left)
        judge = judge_of_run(options)
        before = judge.spent
        graded: list[WatchedGrade] = []
        deferred: set[str] = set()
        sessions: dict[str, Session] = {}  # that are being graded

        def read() -> Iterator[Session]:
            for session in batch.changed.decoded():
                sessions[session.session_id] = session
                yield session

        with use_judge(judge):
            read_with_columns = prepared.with_columns(read(), self._on_problem)
            for grade in grade_sessions(prepared, read_with_columns, Coverage()):
                name = str(grade.session_id)
                session = sessions.pop(name)
                if _lacks_budget(grade):
                    deferred.add(name)
                    continue
                place = name, batch.digests[name], batch.idle[name].seq
                sent = session if self._channels.have(grade) else None
                graded.append(WatchedGrade(*place, grade, session.end_ns, counted_of(session), sent))
        return graded, deferred, JudgeUsage(judge.name, spent_since(before, judge.spent))

    def _count(self, run: Run) -> None:
        self._verdicts.update({verdict.value: number for verdict, number in run.verdicts.items() if number})
        self._totals_sent &= not run.sessions

    def _send(self, stop: threading.Event) -> None:
        """Send the messages that are due, and the metrics if they changed."""
        if self._webhook is not None:
            self._send_messages(self._webhook, stop)
        if self._telemetry is not None:
            self._send_events(self._telemetry, OTLP, stop)
            self._send_metrics(self._telemetry)
        if self._scores is not None:
            self._send_events(self._scores, SCORES, stop)

    def _send_messages(self, webhook: Webhook, stop: threading.Event) -> None:
        accepted = True
        while accepted and not stop.is_set():
            with self._open() as store:
                due = deliveries.due(store, WEBHOOK, self._clock(), _MESSAGES)
            outcomes: list[deliveries.Attempt] = []
            try:
                for one in due:
                    outcomes.append(webhook.send(one, self._clock()))
                    accepted = not outcomes[-1].error or outcomes[-1].reached
                    if not accepted or stop.is_set():  # the others would wait for the same time-out
                        break
            finally:  # what was accepted is not sent again
                self._record(outcomes)
            accepted &= bool(due)

    def _send_events(self, to: Telemetry | Sender, kind: str, stop: threading.Event) -> None:
        accepted = True
        while accepted and not stop.is_set():
            with self._open() as store:
                due = deliveries.due(store, kind, self._clock(), _EVENTS)
            outcomes = to.send_events(due) if due else []
            self._record(outcomes)
            accepted = bool(outcomes) and not any(one.error for one in outcomes)

    def _send_metrics(self, telemetry: Telemetry) -> None:
        if self._totals_sent:
            return
        with self._open() as store:
            totals = read_totals(store)
        self._totals_sent = not totals or telemetry.send_metrics(totals, self._clock())

    def _record(self, outcomes: list[deliveries.Attempt]) -> None:
        if not outcomes:
            return
        with self._open() as store:
            deliveries.record(store, outcomes, self._clock())
        for error in sorted({outcome.error for outcome in outcomes if outcome.error}):
            _log.warning("%s", error)


def _state(db: Path) -> tuple[int, int] | None:
    """Return when a database file was written last, and its size; None if there is none."""
    try:
        found = db.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _lacks_budget(grade: Grade) -> bool:
    return any(isinstance(one, Inconclusive) and one.over_budget for one in grade.outcomes.values())


def spent_on_day(store: Store, now_ns: int) -> Spent:
    """Return the judge's calls and cost on the day (UTC) of a time; a cost unknown in part is None."""
    rows = store.query(
        "SELECT coalesce(sum(calls), 0)::BIGINT, "
        "CASE WHEN count(*) = count(cost_usd) THEN coalesce(sum(cost_usd), 0)::DOUBLE END "
        "FROM watch_spending WHERE time_ns >= $day AND time_ns < $next_day",
        {"day": now_ns - now_ns % _DAY_NS, "next_day": now_ns - now_ns % _DAY_NS + _DAY_NS},
    )
    return Spent(calls=rows[0][0], cost_usd=rows[0][1])


def _secret(options: WatchOptions) -> bytes | None:
    """Return the key that messages are signed with; Slack checks no signature."""
    is_slack = options.webhook_format is WebhookFormat.SLACK
    return None if is_slack and not os.environ.get(SECRET_VARIABLE) else secret_from_environment()


_Result = TypeVar("_Result")


def _once_free(look: Callable[[], _Result], options: WatchOptions, stop: threading.Event) -> _Result | None:
    """Return what a function returns once no other process has the database open; None if it is stopped.

    With `once` it raises StoreLockedError after `RUN_WAIT_S`.
    """
    give_up_s = time.monotonic() + RUN_WAIT_S if options.once else math.inf
    noted = False
    while not stop.is_set():
        try:
            return look()
        except StoreLockedError as error:
            if time.monotonic() >= give_up_s:
                raise
            if not noted:
                _log.warning("%s", error)
            noted = True
            stop.wait(min(seconds_of(options.every_s), RUN_WAIT_S))
    return None


def watch(
    spec: GradeSpec,
    db: Path,
    options: WatchOptions,
    callbacks: Callbacks = DEFAULT,
    stop: threading.Event | None = None,
    on_start: Callable[[], None] = lambda: None,
    on_round: Callable[[WatchSummary], None] = lambda _: None,
    on_look: Callable[[str | None, WatchSummary | None], None] = lambda problem, summary: None,  # noqa: ARG005
) -> WatchSummary:
    """Grade sessions as they become idle, until `stop` is set or, with `once`, once; see `Database.watch`.

    `on_look` is called after each look, with why it failed or with the summary.
    """
    select, words = spec.select, Selection()
    for name in ("sessions", "of_run", "last_import", "latest_per_question", "limit", "questions", "answers"):
        if getattr(select, name) != getattr(words, name):
            raise FieldError(f"select.{name}", "it is about sessions that are there: `watch` cannot have it")
    if options.alerts and spec.dataset is None and not (spec.gates.requested or spec.gates.in_force):
        spec = replace(spec, gates=replace(spec.gates, metrics=("cost",)))  # alerts on what is not graded
    stored = DatabaseFile(db, callbacks)
    stop = stop or threading.Event()
    # A metric that is not installed may be a score in the database, and a query is tried on it.
    prepared = _once_free(lambda: prepare(spec, stored, callbacks), options, stop)
    if prepared is None:  # stopped
        return WatchSummary({}, 0, 0, {})
    if not prepared.dataset and not prepared.gates and not options.alerts:
        raise FieldError("gates", "nothing to grade by: expected a dataset, a gate (NAME>=T) or an alert")
    prepared.judge()
    if stored.exists():  # a query that cannot run is known now, not once a session is idle
        metrics = prepared.metrics
        _once_free(lambda: try_queries(stored, metrics, derived=True), options, stop)
    watching = Watch(
        db,
        prepared,
        options,
        webhook=None if options.webhook is None else Webhook(options.webhook, _secret(options)),
        telemetry=Telemetry() if options.otlp else None,
        scores=None if options.send is None else Sender(stored, options.send, semconv.SCOPE_OF_WATCH),
        on_problem=callbacks.on_problem,
        configured=callbacks.configured,
    )
    on_start()
    try:
        if options.once:
            return watching.round(stop)
        watching.run(stop, on_round, on_look)
        return watching.summary()
    finally:
        watching.close()
