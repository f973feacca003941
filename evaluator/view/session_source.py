"""What the database has of one session: all that its page is made of, read in one window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive import load
from spangrade.evaluator.derive.sync.recorded import (
    TraceRange,
    logged_state,
    logs_of,
    spans_of,
    stored_rows,
)
from spangrade.evaluator.grading.stored_questions import stored_question
from spangrade.evaluator.maintenance.lint import Finding, lint
from spangrade.evaluator.metrics.external import ExternalScore, external_scores
from spangrade.evaluator.session import Session
from spangrade.tracer.errors import InputError
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

# Spans and logs from which on a page opens without its spans: reading 20,000 with their attributes takes 1 s.
LARGE = 2_000
MAX_RUNS = 20  # that graded a session: the latest are listed

_PACKAGE = "spangrade.evaluator.view"


class SpanRow(NamedTuple):
    """A span without its attributes, as it is stored."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    start_ns: int
    end_ns: int
    status: str = "UNSET"
    status_message: str | None = None
    scope_name: str | None = None


class StateChange(NamedTuple):
    """State variables that were set, and the span that records it; None where a session's log does."""

    time_ns: int
    variables: Mapping[str, Any]
    trace_id: str | None = None
    span_id: str | None = None


class ScoreOfMetric(NamedTuple):
    """The outcome of one metric, with the ids of the spans that are its evidence."""

    metric: str
    value: float | None
    passed: bool | None
    outcome: str
    reason: str | None
    evidence: tuple[str, ...] = ()


class GradeOfRun(NamedTuple):
    """What a run found of a session; `thresholds` are those of its gates, None if they were not stored."""

    run_id: str
    graded_at: datetime
    dataset: str
    question_id: str | None
    verdict: str
    reason: str
    scores: tuple[ScoreOfMetric, ...] = ()
    thresholds: Mapping[str, str] | None = None


class VerdictOfRun(NamedTuple):
    """The verdict of one of the runs that graded a session; `name` is the run's, if it has one."""

    run_id: str
    name: str | None
    graded_at: datetime
    verdict: str


class SessionSource(NamedTuple):
    """A session, its spans, what a run found of it, and what its recording lacks.

    `given` are the scores of people, traces and programs, `verdicts` those of the latest runs. Of a large
    session `spans` are empty, and `state_changes` and `findings` None: its page loads them on demand.
    `span_count` is the number of its spans.
    """

    session: Session
    spans: tuple[SpanRow, ...] = ()
    span_count: int = 0
    state_changes: tuple[StateChange, ...] | None = ()
    grade: GradeOfRun | None = None
    question: GoldenQuestion | None = None
    findings: tuple[Finding, ...] | None = ()
    given: tuple[ExternalScore, ...] = ()
    verdicts: tuple[VerdictOfRun, ...] = ()


def session_source(store: Store, session_id: str, run_id: str | None = None) -> SessionSource:
    """Return what the page of a session needs: with the grade of a run, else of the latest one.

    Raises InputError if there is no such session.
    """
    session = stored_session(store, session_id)
    grade = grade_of(store, session_id, run_id)
    question = None
    if grade is not None and grade.question_id is not None:
        question = stored_question(store, grade.run_id, grade.question_id)
    ((count,),) = store.query(
        "SELECT coalesce(sum(records), 0)::BIGINT FROM derived.traces WHERE session_id = $session_id",
        {"session_id": session_id},
    )
    given = tuple(external_scores(store, session_id).get(session_id, ()))
    verdicts = store.query(
        statement("session_verdicts", _PACKAGE), {"session_id": session_id, "limit": MAX_RUNS}
    )
    runs = tuple(VerdictOfRun(*row) for row in verdicts)
    if count > LARGE:
        return SessionSource(session, (), count, None, grade, question, None, given, runs)
    spans = spans_of_session(store, session_id)
    changes = state_changes(store, session_id)
    findings = tuple(lint(store, session_id, session))
    return SessionSource(session, spans, len(spans), changes, grade, question, findings, given, runs)


def stored_session(store: Store, session_id: str) -> Session:
    """Return a session. Raises InputError if there is no such session."""
    session = next(load(store, session_id), None)
    if session is None:
        raise InputError(f"{store.path}: no session {session_id!r}: it may have been deleted")
    return session


def spans_of_session(store: Store, session_id: str) -> tuple[SpanRow, ...]:
    """Return the spans of a session in the order in which they started, each once."""
    rows = store.query(statement("session_spans", _PACKAGE), {"session_id": session_id})
    spans = (SpanRow(*row) for row in rows)
    return tuple({(span.trace_id, span.span_id): span for span in spans}.values())


def span_record(store: Store, session_id: str, span_id: str) -> dict[str, Any] | None:
    """Return all that is stored of a span, as JSON values; None if the session has no such span."""
    records = span_records(store, session_id)
    return next((record for record in records if record["span_id"] == span_id), None)


def span_records(store: Store, session_id: str) -> Iterator[dict[str, Any]]:
    """Yield all that is stored of the spans of a session, as JSON values."""
    for rows in stored_rows(store, _traces(store, session_id)).spans:
        yield from map(_json_record, rows)


def grade_of(store: Store, session_id: str, run_id: str | None = None) -> GradeOfRun | None:
    """Return what a run found of a session, without one the latest; None if it was not graded."""
    found = store.query(statement("session_grade", _PACKAGE), {"session_id": session_id, "run_id": run_id})
    if not found:
        return None
    found_run, graded_at, dataset, question_id, verdict, reason, thresholds = found[0]
    scores = store.query(
        "SELECT metric, value, passed, outcome, reason, evidence FROM scores "
        "WHERE run_id = $run_id AND session_id = $session_id ORDER BY rowid",
        {"run_id": found_run, "session_id": session_id},
    )
    return GradeOfRun(
        found_run,
        graded_at,
        dataset,
        question_id,
        verdict,
        reason,
        tuple(ScoreOfMetric._make((*score[:5], tuple(orjson.loads(score[5] or "[]")))) for score in scores),
        None if thresholds is None else orjson.loads(thresholds),
    )


def _traces(store: Store, session_id: str) -> list[TraceRange]:
    rows = store.query(
        "SELECT trace_id, first_seq, last_seq FROM derived.traces WHERE session_id = $session_id",
        {"session_id": session_id},
    )
    return [TraceRange(*row) for row in rows]


def state_changes(store: Store, session_id: str) -> tuple[StateChange, ...]:
    """Return the changes of a session's state in their order. It takes 70 µs per span."""
    stored = stored_rows(store, _traces(store, session_id))
    logs: dict[tuple[str, str], list[Any]] = {}
    for record in logs_of(stored.logs):
        logs.setdefault((record.trace_id or "", record.span_id or ""), []).append(record)
    changes = [
        StateChange(time_ns, variables, o.trace_id, o.span_id or None)
        for batch in spans_of(stored.spans)
        for o in observe(batch, logs)
        for time_ns, variables in o.state
    ]
    logged = logged_state(store, [session_id]).get(session_id, [])
    changes += [StateChange(time_ns, variables) for time_ns, variables in logged]
    return tuple(sorted(changes, key=lambda change: change.time_ns))


_JSON_COLUMNS = frozenset({"attributes", "events", "links", "resource"})


def _json_record(row: Sequence[Any]) -> dict[str, Any]:
    return {
        name: orjson.loads(value) if name in _JSON_COLUMNS and value is not None else value
        for name, value in zip(Span._fields, row, strict=True)
    }
