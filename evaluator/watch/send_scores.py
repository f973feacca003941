"""The scores of a stored run as events for an OTLP receiver, each sent once: `grade --otlp` and `run --otlp`.

What is sent is written before, and marked once the receiver has accepted it. After an interruption the same
event, with its time and run, is sent again, so that a receiver which has it already can tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import nanoarrow as na

from spangrade.evaluator.derive.session_rows import load_sessions
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.grading.stored_run import StoredRun, grades_of_run, metric_name, read_run
from spangrade.evaluator.metrics import load_metrics
from spangrade.evaluator.metrics.registry import version_of
from spangrade.evaluator.metrics.stored_values import stored_thresholds
from spangrade.evaluator.watch.events import evaluator_of, events_of
from spangrade.evaluator.watch.options import endpoint_of
from spangrade.evaluator.watch.tables import check_sent_scores, create_sent_scores, sql
from spangrade.evaluator.watch.telemetry import REFUSED, Events
from spangrade.tracer import semconv
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows
from spangrade.tracer.store.stored import Stored
from spangrade.tracer.terminal import counted

_SESSIONS = 200  # of a request
_TYPES = {
    **dict.fromkeys(("session_id", "question_id", "metric", "content", "run_id"), na.string()),
    "time_ns": na.int64(),
}


class SentScores(NamedTuple):
    """What became of the scores of a run: events that were sent now, before, and not.

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
        if self.error:
            number = counted(self.unsent, "event")
            again = "grade the same sessions with --otlp to send the rest"
            return f"otlp: {self.endpoint}: {self.error}: {number} not sent; {again}"
        before = f"; {self.sent_before} sent before" if self.sent_before else ""
        if self.unsent:
            return f"otlp: {counted(self.unsent, 'event')} would be sent to {self.endpoint}{before}"
        return f"otlp: {counted(self.sent, 'event')} sent to {self.endpoint}{before}"

    def to_json(self) -> dict[str, Any]:
        """Return the counts, and the events of a dry run, as JSON values."""
        return {**self._asdict(), "events": list(self.events)}


class _Event(NamedTuple):
    """An event, its place in the table of what was sent, and its time."""

    session_id: str
    question_id: str
    metric: str
    content: str
    run_id: str
    time_ns: int
    event: dict[str, Any]

    @property
    def key(self) -> tuple[str, str, str]:
        """What an event takes the place of another of."""
        return self[:3]


def send_scores(
    stored: Stored,
    run_id: str,
    url: str,
    *,
    dry_run: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> SentScores:
    """Send the gates and requested metrics of a stored run to an OTLP receiver; return what was sent.

    A score that the receiver already has, of whichever run, is not sent again. With `dry_run` nothing is sent
    or stored. Raises InputError for a URL that cannot be used.
    """
    endpoint = endpoint_of(url)
    with stored.reading(wait_s=RUN_WAIT_S) as store:
        run = read_run(store, run_id)
        evaluators = _evaluators(store, run)
        grades = [one for one in grades_of_run(store, run_id) if one.session_id is not None]
    done = SentScores(endpoint)
    exporter = None if dry_run else Events(endpoint, semconv.SCOPE_OF_GRADE)
    try:
        for first in range(0, len(grades), _SESSIONS):
            with stored.reading(wait_s=RUN_WAIT_S) as store:
                events, known, waiting = _new_events(
                    store, endpoint, run_id, grades[first : first + _SESSIONS], evaluators, clock()
                )
            done = done._replace(sent_before=done.sent_before + known)
            if exporter is None:
                shown = [*done.events, *(one.event for one in events)]
                done = done._replace(unsent=len(shown), events=shown)
            elif done.error:
                done = done._replace(unsent=done.unsent + len(events))
            elif events:
                error = _send(stored, endpoint, exporter, events, waiting, clock)
                if error:
                    done = done._replace(error=error, unsent=len(events))
                else:
                    done = done._replace(sent=done.sent + len(events))
    finally:
        if exporter is not None:
            exporter.close()
    return done


def _send(
    stored: Stored,
    endpoint: str,
    exporter: Events,
    events: Sequence[_Event],
    waiting: set[tuple[str, str, str]],
    clock: Callable[[], int],
) -> str:
    """Send events; return why they were not accepted, empty if they were. `waiting` are written already."""
    rows = [one[:-1] for one in events]
    with stored.writing(wait_s=RUN_WAIT_S) as store:
        create_sent_scores(store)
        new = [row for row in rows if row[:3] not in waiting]
        if new:
            store.query(
                "INSERT INTO sent_scores BY NAME "
                "SELECT $endpoint AS endpoint, NULL AS sent_ns, * FROM incoming",
                {"endpoint": endpoint},
                incoming=arrow_rows(new, _TYPES),
            )
    if not exporter.send([(one.event, one.time_ns) for one in events]):
        return REFUSED
    with stored.writing(wait_s=RUN_WAIT_S) as store:
        store.query(
            sql("mark_sent"),
            {"endpoint": endpoint, "now": clock()},
            accepted=arrow_rows(rows, _TYPES),
        )
    return ""


def _new_events(
    store: Store,
    endpoint: str,
    run_id: str,
    grades: Sequence[Grade],
    evaluators: Mapping[str, Mapping[str, str]],
    now_ns: int,
) -> tuple[list[_Event], int, set[tuple[str, str, str]]]:
    """Return the events of grades that are to be sent, how many were, and the keys of those that wait."""
    ids = sorted({one.session_id for one in grades if one.session_id is not None})
    last: dict[tuple[str, str, str], tuple[str, str, int, bool]] = {}
    if check_sent_scores(store):
        rows = store.query(sql("last_sent"), {"endpoint": endpoint}, wanted=arrow_column("session_id", ids))
        last = {row[:3]: row[3:] for row in rows}
    sessions = {one.session_id: one for one in load_sessions(store, ids).decoded()}
    events: list[_Event] = []
    waiting: set[tuple[str, str, str]] = set()
    sent = 0
    for grade in grades:
        session = sessions.get(grade.session_id or "")
        if session is None:  # deleted meanwhile
            continue
        for event in events_of(session, grade, evaluators, run_id):
            metric = event["attributes"][semconv.EVALUATION_NAME]
            key = (session.session_id, grade.question_id or "", metric)
            content = _content(event)
            known, of_run, time_ns, accepted = last.get(key, ("", "", 0, False))
            if known != content:
                events.append(_Event(*key, content, run_id, now_ns, event))
            elif accepted:
                sent += 1
            else:
                waiting.add(key)
                event["attributes"][semconv.RUN_ID] = of_run
                events.append(_Event(*key, content, of_run, time_ns, event))
    return events, sent, waiting


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
