"""What the database has of one session: all that its page is made of, read in one window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive import load
from spangrade.evaluator.derive.recorded import (
    TraceRange,
    logged_state,
    logs_of,
    spans_of,
    stored_rows,
)
from spangrade.evaluator.grading.stored_questions import stored_question
from spangrade.evaluator.maintenance.lint import Finding, lint
from spangrade.evaluator.session import Session
from spangrade.tracer.errors import InputError
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

# Spans from which on a page does not read all attributes to open: 20,000 take a second.
LARGE = 2_000

_PACKAGE = "spangrade.evaluator.view"
_RUNS = frozenset({"turn", "workflow", "agent"})


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


class SessionSource(NamedTuple):
    """A session, its spans, what a run found of it, and what its recording lacks.

    `agent_spans` are the (trace id, span id) of the runs of agents. They and `state_changes` are None where
    they are not read (a large session), and the page then loads them on demand.
    """

    session: Session
    spans: tuple[SpanRow, ...] = ()
    agent_spans: frozenset[tuple[str, str]] | None = frozenset()
    state_changes: tuple[StateChange, ...] | None = ()
    grade: GradeOfRun | None = None
    question: GoldenQuestion | None = None
    findings: tuple[Finding, ...] = ()


def session_source(
    store: Store, session_id: str, run_id: str | None = None, *, whole: bool = False
) -> SessionSource:
    """Return what the page of a session needs: with the grade of a run, else of the latest one.

    A large session is read with the attributes of its spans only if `whole`. Raises InputError if there is no
    such session.
    """
    grade = grade_of(store, session_id, run_id)
    question = None
    if grade is not None and grade.question_id is not None:
        question = stored_question(store, grade.run_id, grade.question_id)
    spans = spans_of_session(store, session_id)
    agents, changes = _observed(store, session_id) if whole or len(spans) <= LARGE else (None, None)
    session = next(load(store, session_id), None)
    if session is None:
        raise InputError(f"{store.path}: no session {session_id!r}: it may have been deleted")
    return SessionSource(session, spans, agents, changes, grade, question, tuple(lint(store, session_id)))


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


def _observed(store: Store, session_id: str) -> tuple[frozenset[tuple[str, str]], tuple[StateChange, ...]]:
    """Return the spans of the agents' runs, and the changes of state in their order."""
    stored = stored_rows(store, _traces(store, session_id))
    logs: dict[tuple[str, str], list[Any]] = {}
    for record in logs_of(stored.logs):
        logs.setdefault((record.trace_id or "", record.span_id or ""), []).append(record)
    observations: list[Observation] = []
    for batch in spans_of(stored.spans):
        observations += observe(batch, logs)
    changes = [
        StateChange(time_ns, variables, o.trace_id, o.span_id or None)
        for o in observations
        for time_ns, variables in o.state
    ]
    logged = logged_state(store, [session_id]).get(session_id, [])
    changes += [StateChange(time_ns, variables) for time_ns, variables in logged]
    agents = frozenset((o.trace_id, o.span_id) for o in observations if o.kind in _RUNS)
    return agents, tuple(sorted(changes, key=lambda change: change.time_ns))


_JSON_COLUMNS = frozenset({"attributes", "events", "links", "resource"})


def _json_record(row: Sequence[Any]) -> dict[str, Any]:
    return {
        name: orjson.loads(value) if name in _JSON_COLUMNS and value is not None else value
        for name, value in zip(Span._fields, row, strict=True)
    }
