"""Scores as events for an OTLP receiver, each sent once: the option `--send` of `grade`, `run` and `watch`.

What is sent is written before, and marked once the receiver has accepted it. After an interruption the same
score, with its time and run, is sent again, so that a receiver which has it already can tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from typing import Any, NamedTuple

import nanoarrow as na
import orjson

from spangrade.evaluator.apps.server.grade.deliveries import Attempt, Delivery
from spangrade.evaluator.apps.server.grade.events import evaluator_of, events_of
from spangrade.evaluator.apps.server.grade.tables import check_sent_scores, create_sent_scores, sql
from spangrade.evaluator.apps.server.grade.telemetry import Events
from spangrade.evaluator.derive.session_rows import load_sessions
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.grading.stored_run import StoredRun, grades_of_run, metric_name, read_run
from spangrade.evaluator.metrics import load_metrics
from spangrade.evaluator.metrics.registry import version_of
from spangrade.evaluator.metrics.stored_values import stored_thresholds
from spangrade.evaluator.results.scores_to import receiver_url
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows
from spangrade.tracer.store.store import Stored

_SESSIONS = 200  # of a request
_TEXTS = ("session_id", "question_id", "metric", "content", "run_id", "trace_id", "span_id")
_TYPES = {**dict.fromkeys(_TEXTS, na.string()), "time_ns": na.int64()}


class SentScores(NamedTuple):
    """What became of the scores of a run: how many were sent now, before, and not.

    `events` are those that a dry run would send, as JSON values; `error` is empty if all were accepted.
    """

    endpoint: str
    sent: int = 0
    sent_before: int = 0
    unsent: int = 0
    error: str = ""
    events: Sequence[Mapping[str, Any]] = ()

    def __str__(self) -> str:
        """Return the counts as a line."""
        before = f"; {self.sent_before} sent before" if self.sent_before else ""
        if self.error:
            again = "grade the same sessions with --send to send the rest"
            number = counted(self.unsent, "score")
            return f"{self.endpoint} {self.error}: {number} not sent, {self.sent} sent{before}; {again}"
        if self.unsent:
            return f"{counted(self.unsent, 'score')} would be sent to {self.endpoint}{before}"
        return f"{counted(self.sent, 'score')} sent to {self.endpoint}{before}"


class _Row(NamedTuple):
    """A score that is to be sent: its row in the table of what was sent, and its event."""

    session_id: str
    question_id: str
    metric: str
    content: str
    run_id: str
    trace_id: str
    span_id: str | None
    time_ns: int
    event: Mapping[str, Any]
    is_written: bool

    @property
    def values(self) -> tuple[Any, ...]:
        """What the table has, in the order of `_TYPES`."""
        return self[:8]


class Sender:
    """Sends scores to an OTLP receiver, each once, and notes in a database what was sent.

    Events have the instrumentation scope `scope`.
    """

    def __init__(self, stored: Stored, url: str, scope: str, clock: Callable[[], int] = time.time_ns) -> None:
        self._stored = stored
        self._url = receiver_url(url)
        self._receiver = Events(self._url, scope)
        self._clock = clock

    def send(self, events: Sequence[Mapping[str, Any]], times: Sequence[int]) -> list[str | None]:
        """Send events of scores; return why each was not accepted: "" if it was, None if it was before."""
        with self._stored.reading(wait_s=RUN_WAIT_S, derived=False) as store:
            rows = unsent(store, self._url, events, times)
        waiting = [row for row in rows if row is not None]
        errors = iter(self._send(waiting) if waiting else [])
        return [None if row is None else next(errors) for row in rows]

    def send_events(self, deliveries: Sequence[Delivery]) -> list[Attempt]:
        """Send the scores of deliveries."""
        bodies = [orjson.loads(delivery.body) for delivery in deliveries]
        events = [event for body in bodies for event in body["events"]]
        times = [body["time_ns"] for body in bodies for _ in body["events"]]
        errors = iter(self.send(events, times))
        found = [[error for _, error in zip(body["events"], errors, strict=False)] for body in bodies]
        return [
            Attempt(one, next((f"{self._url} {error}" for error in of_one if error), ""))
            for one, of_one in zip(deliveries, found, strict=True)
        ]

    def close(self) -> None:
        """Close the connections."""
        self._receiver.close()

    def _send(self, rows: Sequence[_Row]) -> list[str]:
        endpoint = {"endpoint": self._url}
        with self._stored.writing(wait_s=RUN_WAIT_S) as store:
            create_sent_scores(store)
            if new := [row.values for row in rows if not row.is_written]:
                store.query(
                    "INSERT INTO sent_scores BY NAME "
                    "SELECT $endpoint AS endpoint, NULL AS sent_ns, * FROM incoming",
                    endpoint,
                    incoming=arrow_rows(new, _TYPES),
                )
        if not self._receiver.send([(row.event, row.time_ns) for row in rows]):
            return ["refused the events"] * len(rows)
        accepted = arrow_rows([row.values for row in rows], _TYPES)
        with self._stored.writing(wait_s=RUN_WAIT_S) as store:
            store.query(sql("mark_sent"), {**endpoint, "now": self._clock()}, accepted=accepted)
        return [""] * len(rows)


def send_scores(
    stored: Stored,
    run_id: str,
    url: str,
    *,
    dry_run: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> SentScores:
    """Send the gates and requested metrics of a stored run to a receiver; return what was sent.

    A score that the receiver already has, of whichever run, is not sent again. With `dry_run` nothing is
    sent or stored. Raises InputError for a URL that cannot be used.
    """
    done = SentScores(receiver_url(url))
    with stored.reading(wait_s=RUN_WAIT_S) as store:
        run = read_run(store, run_id)
        evaluators = _evaluators(store, run)
        grades = [one for one in grades_of_run(store, run_id) if one.session_id is not None]
    if dry_run:
        for batch in _events(stored, grades, evaluators, run_id):
            with stored.reading(wait_s=RUN_WAIT_S, derived=False) as store:
                rows = unsent(store, done.endpoint, batch, [clock()] * len(batch))
            shown = [*done.events, *(row.event for row in rows if row is not None)]
            before = done.sent_before + rows.count(None)
            done = done._replace(events=shown, unsent=len(shown), sent_before=before)
        return done
    with closing(Sender(stored, url, semconv.SCOPE_OF_GRADE, clock)) as sender:
        for batch in _events(stored, grades, evaluators, run_id):
            errors = sender.send(batch, [clock()] * len(batch))
            refused = [error for error in errors if error]
            done = done._replace(
                sent=done.sent + errors.count(""),
                sent_before=done.sent_before + errors.count(None),
                unsent=done.unsent + len(refused),
                error=done.error or next(iter(refused), ""),
            )
    return done


def _events(
    stored: Stored,
    grades: Sequence[Grade],
    evaluators: Mapping[str, Mapping[str, str]],
    run_id: str,
) -> Iterator[list[dict[str, Any]]]:
    """Yield the events of grades, of some sessions at a time; of sessions deleted meanwhile there is none."""
    for first in range(0, len(grades), _SESSIONS):
        batch = grades[first : first + _SESSIONS]
        ids = sorted({one.session_id for one in batch if one.session_id is not None})
        with stored.reading(wait_s=RUN_WAIT_S) as store:
            sessions = {one.session_id: one for one in load_sessions(store, ids).decoded()}
        yield [
            event
            for grade in batch
            if (session := sessions.get(grade.session_id or "")) is not None
            for event in events_of(session, grade, evaluators, run_id)
        ]


def unsent(
    store: Store, endpoint: str, events: Iterable[Mapping[str, Any]], times: Iterable[int]
) -> list[_Row | None]:
    """Return what is to be sent of events: None for one that is the last that was accepted of its score.

    One that was written and not accepted is sent as it was, with its run and time.
    """
    last = _last_sent(store, endpoint, events := list(events))
    rows: list[_Row | None] = []
    for event, now_ns in zip(events, times, strict=True):
        key, content = _key(event), _content(event)
        time_ns, run_id, attributes = now_ns, event["attributes"][semconv.RUN_ID], event["attributes"]
        known = last.get(key)
        if is_written := known is not None and known.content == content:
            if known.accepted:
                rows.append(None)
                continue
            time_ns, run_id = known.time_ns, known.run_id
            attributes = {**attributes, semconv.RUN_ID: run_id}
        place = (event["trace_id"], event["span_id"])
        row = _Row(*key, content, run_id, *place, time_ns, {**event, "attributes": attributes}, is_written)
        rows.append(row)
    return rows


class _Sent(NamedTuple):
    """What was last sent of a score."""

    content: str
    run_id: str
    time_ns: int
    accepted: bool


def _last_sent(
    store: Store, endpoint: str, events: Sequence[Mapping[str, Any]]
) -> dict[tuple[str, str, str], _Sent]:
    if not events or not check_sent_scores(store):
        return {}
    ids = sorted({_key(event)[0] for event in events})
    rows = store.query(sql("last_sent"), {"endpoint": endpoint}, wanted=arrow_column("session_id", ids))
    return {
        (session_id, question_id, metric): _Sent(*sent) for session_id, question_id, metric, *sent in rows
    }


def _key(event: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what an event takes the place of another of: its session, question and metric."""
    found = event["attributes"]
    return (
        found[semconv.CONVERSATION_ID],
        found.get(semconv.QUESTION_ID, ""),
        found[semconv.EVALUATION_NAME],
    )


def _content(event: Mapping[str, Any]) -> str:
    attributes = {name: value for name, value in event["attributes"].items() if name != semconv.RUN_ID}
    return sha256(canonical({**event, "attributes": attributes}).encode("utf-8", "surrogatepass")).hexdigest()


def _evaluators(store: Store, run: StoredRun) -> dict[str, dict[str, str]]:
    """Return what is known of who evaluates by each gate and each requested metric of a run."""
    query = "SELECT thresholds FROM runs WHERE run_id = $run_id"
    ((thresholds,),) = store.query(query, {"run_id": run.run_id})
    installed = load_metrics()
    found: dict[str, dict[str, str]] = {}
    for name in (*stored_thresholds(thresholds), *map(metric_name, run.metrics)):
        metric = installed.get(name.partition(":")[0])
        is_same = metric is not None and run.versions.get(name) == version_of(metric)
        found[name] = evaluator_of(metric, run.judge) if metric is not None and is_same else {}
    return found
