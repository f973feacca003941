"""What the database has of one session: all that its page is made of, read in one window."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive import load, load_sessions
from spangrade.evaluator.derive.settings import settings_of
from spangrade.evaluator.derive.sync.recorded import (
    Row,
    TraceRange,
    logged,
    logs_of,
    spans_of,
    stored_rows,
)
from spangrade.evaluator.grading.stored_run import stored_questions_of
from spangrade.evaluator.grading.stored_sessions import StoredGrade, grades_of
from spangrade.evaluator.maintenance.lint import Finding, findings_of
from spangrade.evaluator.metrics.external import ExternalScore, external_scores
from spangrade.evaluator.reports.html.queries import page_query
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

# Spans and logs from which on a page opens without its spans: reading 20,000 with their attributes takes 1 s.
LARGE = 2_000
MAX_RUNS = 20  # that graded a session: the latest are listed

_start = attrgetter("start_ns")


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


_SPAN_ROW = tuple(map(Span._fields.index, SpanRow._fields))


class StateChange(NamedTuple):
    """State variables that were set, and the span that records it; None where a session's log does."""

    time_ns: int
    variables: Mapping[str, Any]
    trace_id: str | None = None
    span_id: str | None = None


class VerdictOfRun(NamedTuple):
    """The verdict of one of the runs that graded a session; `run` is its name, else how its id begins."""

    run_id: str
    run: str
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
    grade: StoredGrade | None = None
    question: GoldenQuestion | None = None
    findings: tuple[Finding, ...] | None = ()
    given: tuple[ExternalScore, ...] = ()
    verdicts: tuple[VerdictOfRun, ...] = ()


def session_source(
    store: Store,
    session_id: str,
    run_id: str | None = None,
    on_span: Callable[[str, Row], None] = lambda session_id, row: None,  # noqa: ARG005
) -> SessionSource:
    """Return what the page of a session needs: with the grade of a run, else of the latest one.

    `on_span` is called as `session_sources` does. Raises InputError if there is no such session.
    """
    found = session_sources(store, [session_id], run_id, most=LARGE, on_span=on_span).get(session_id)
    if found is None:
        raise _no_session(store, session_id)
    return found


def session_sources(
    store: Store,
    session_ids: Sequence[str],
    run_id: str | None = None,
    *,
    most: int | None = None,
    on_span: Callable[[str, Row], None] = lambda session_id, row: None,  # noqa: ARG005
) -> dict[str, SessionSource]:
    """Return what the pages of sessions need, by id, of those that there are: some 30 statements for all.

    They have the grade of a run, else of the latest one. A session with more than `most` spans and logs is
    large. `on_span` is called with each stored span of the others, and the id of its session.
    """
    sessions = {session.session_id: session for session in load_sessions(store, session_ids).decoded()}
    counts = record_counts(store, session_ids)
    read = [one for one in sessions if most is None or counts.get(one, 0) <= most]
    # Looking for changes of state takes as long as all else.
    with_state = {
        one for one in read if sessions[one].state_variables is not None or sessions[one].assembly_error
    }
    recorded = _recorded(store, read, with_state, on_span)
    findings = findings_of(store, [sessions[one] for one in read])
    grades = grades_of(store, session_ids, run_id)
    questions = _questions(store, grades.values())
    given, verdicts = external_scores(store, session_ids), _verdicts(store, session_ids)
    sources = {}
    for one, session in sessions.items():
        grade = grades.get(one)
        source = SessionSource(
            session,
            (),
            counts.get(one, 0),
            None,
            grade,
            None if grade is None else questions.get((grade.run_id, grade.question_id)),
            None,
            tuple(given.get(one, ())),
            tuple(verdicts.get(one, ())),
        )
        if one in recorded:
            spans, changes = recorded[one]
            source = source._replace(
                spans=spans, span_count=len(spans), state_changes=changes, findings=tuple(findings[one])
            )
        sources[one] = source
    return sources


def record_counts(store: Store, session_ids: Sequence[str]) -> Mapping[str, int]:
    """Return how many spans and logs sessions have, by id."""
    return dict(
        store.query(
            "SELECT session_id, sum(records)::BIGINT FROM derived.traces "
            "WHERE session_id IN (SELECT unnest($sessions::VARCHAR[])) GROUP BY session_id",
            {"sessions": session_ids},
        )
    )


def stored_session(store: Store, session_id: str) -> Session:
    """Return a session. Raises InputError if there is no such session."""
    session = next(load(store, session_id), None)
    if session is None:
        raise _no_session(store, session_id)
    return session


def _no_session(store: Store, session_id: str) -> InputError:
    return InputError(f"{store.path}: no session {session_id!r}: it may have been deleted")


def spans_of_session(store: Store, session_id: str) -> tuple[SpanRow, ...]:
    """Return the spans of a session in the order in which they started, each once."""
    rows = store.query(page_query("session_spans"), {"session_id": session_id})
    spans = (SpanRow(*row) for row in rows)
    return tuple({(span.trace_id, span.span_id): span for span in spans}.values())


def span_record(store: Store, session_id: str, span_id: str) -> dict[str, Any] | None:
    """Return all that is stored of a span, as JSON values; None if the session has no such span."""
    records = span_records(store, session_id)
    return next((record for record in records if record["span_id"] == span_id), None)


def span_records(store: Store, session_id: str) -> Iterator[dict[str, Any]]:
    """Yield all that is stored of the spans of a session, as JSON values."""
    for rows in stored_rows(store, list(_traces(store, [session_id]))).spans:
        yield from map(json_record, rows)


def _questions(
    store: Store, grades: Iterable[StoredGrade]
) -> Mapping[tuple[str, str | None], GoldenQuestion]:
    """Return the questions of grades, as their runs had them, by run and id."""
    of_runs: dict[str, list[str]] = {}
    for grade in grades:
        if grade.question_id is not None:
            of_runs.setdefault(grade.run_id, []).append(grade.question_id)
    return {
        (run_id, question_id): question
        for run_id, ids in of_runs.items()
        for question_id, question in stored_questions_of(store, run_id, ids).items()
    }


def _verdicts(store: Store, session_ids: Sequence[str]) -> Mapping[str, Sequence[VerdictOfRun]]:
    """Return the verdicts of the latest runs on sessions, by id."""
    verdicts: dict[str, list[VerdictOfRun]] = {}
    for session_id, *verdict in store.query(page_query("session_verdicts"), {"sessions": session_ids}):
        verdicts.setdefault(session_id, []).append(VerdictOfRun(*verdict))
    return {session_id: each[:MAX_RUNS] for session_id, each in verdicts.items()}


def _traces(store: Store, session_ids: Sequence[str]) -> Mapping[TraceRange, str]:
    """Return where the traces of sessions are, each with its session."""
    rows = store.query(
        "SELECT session_id, trace_id, first_seq, last_seq FROM derived.traces "
        "WHERE session_id IN (SELECT unnest($sessions::VARCHAR[]))",
        {"sessions": session_ids},
    )
    return {TraceRange(*trace): session_id for session_id, *trace in rows}


def state_changes(store: Store, session_id: str) -> tuple[StateChange, ...]:
    """Return the changes of a session's state in their order. It takes 70 µs per span."""
    return _recorded(store, [session_id], [session_id])[session_id][1]


def _recorded(
    store: Store,
    session_ids: Sequence[str],
    with_state: Collection[str],
    on_span: Callable[[str, Row], None] = lambda session_id, row: None,  # noqa: ARG005
) -> dict[str, tuple[tuple[SpanRow, ...], tuple[StateChange, ...]]]:
    """Return the spans of sessions, each once and in the order of their start, and the changes of state.

    The changes of those sessions only that are `with_state`.
    """
    traces = _traces(store, session_ids)
    session_of = {trace.trace_id: session_id for trace, session_id in traces.items()}
    stored = stored_rows(store, list(traces))
    logs: dict[tuple[str, str], list[Any]] = {}
    for record in logs_of(stored.logs):
        logs.setdefault((record.trace_id or "", record.span_id or ""), []).append(record)
    vendors = settings_of(store).dialects
    spans: dict[str, list[SpanRow]] = {one: [] for one in session_ids}
    changes: dict[str, list[StateChange]] = {one: [] for one in session_ids}
    for rows in stored.spans:
        for row in rows:
            session_id = session_of[row[0]]
            spans[session_id].append(SpanRow._make(row[i] for i in _SPAN_ROW))
            on_span(session_id, row)
        for batch in spans_of([[row for row in rows if session_of[row[0]] in with_state]]):
            for o in observe(batch, logs, vendors):
                changes[session_of[o.span.trace_id]] += [
                    StateChange(time_ns, variables, o.span.trace_id, o.span.span_id or None)
                    for time_ns, variables in o.notes.state
                ]
    for session_id, beside in logged(store, session_ids, in_runs=False).items():
        changes[session_id] += [StateChange(time_ns, variables) for time_ns, variables in beside.state]
    return {
        one: (
            tuple({(s.trace_id, s.span_id): s for s in sorted(spans[one], key=_start)}.values()),
            tuple(sorted(changes[one], key=attrgetter("time_ns"))),
        )
        for one in session_ids
    }


_JSON_COLUMNS = frozenset({"attributes", "events", "links", "resource"})


def json_record(row: Row) -> dict[str, Any]:
    """Return a stored span as JSON values."""
    return {
        name: orjson.loads(value) if name in _JSON_COLUMNS and value is not None else value
        for name, value in zip(Span._fields, row, strict=True)
    }
