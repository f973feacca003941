"""The scores that a session's traces record, and their copies in the table `scores`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import nanoarrow as na
import orjson

from spangrade.converters.spans.evaluations import Evaluation, evaluation_of_log
from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.session import RecordedScore, Turn
from spangrade.tracer.span import LogRecord
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.sql import statement


def with_scores(
    observations: Sequence[Observation], logged: Iterable[tuple[str | None, Evaluation]]
) -> list[Observation]:
    """Return a trace's observations with the scores in its log records, each with the id of its span.

    Those without a span that is recorded are of the trace: they are kept at its first observation.
    """
    by_span: dict[str, list[Evaluation]] = {}
    known = {o.span.span_id for o in observations}
    first = min((o.span for o in observations), key=lambda span: (span.start_ns, span.span_id)).span_id
    for span_id, score in logged:
        if span_id is not None and span_id in known:
            by_span.setdefault(span_id, []).append(score)
        else:
            by_span.setdefault(first, []).append(score._replace(scope="trace"))
    return [
        o._replace(notes=o.notes._replace(evaluations=(*o.notes.evaluations, *by_span[o.span.span_id])))
        if o.span.span_id in by_span
        else o
        for o in observations
    ]


def recorded_scores(
    observations: Iterable[Observation], turns: Sequence[Turn], logged: Iterable[Evaluation] = ()
) -> tuple[RecordedScore, ...]:
    """Return the scores of a session in the order of their times, each once.

    `logged` are those of session logs, which have no trace.
    """
    turn_by_trace: dict[str, int | None] = {}
    for turn in turns:
        for name in turn.trace_ids:
            turn_by_trace[name] = None if name in turn_by_trace else turn.turn
    scores = {_recorded(one, None, None, None) for one in logged}
    for o in observations:
        for one in o.notes.evaluations:
            turn_number = None if one.scope == "session" else turn_by_trace.get(o.span.trace_id)
            span_id = o.span.span_id if one.scope == "span" else None
            scores.add(_recorded(one, turn_number, o.span.trace_id, span_id))
    return tuple(sorted(scores, key=lambda score: (score.time_ns, *map(str, score))))


def _recorded(one: Evaluation, turn: int | None, trace_id: str | None, span_id: str | None) -> RecordedScore:
    return RecordedScore(
        one.name, one.value, one.label, one.explanation, one.author, turn, one.time_ns, trace_id, span_id
    )


def session_evaluations(store: Store, wanted: na.Array) -> Mapping[str, list[Evaluation]]:
    """Return the scores in session logs, which have no trace, by session: of the ids in a column."""
    rows = store.query(
        f"SELECT * FROM ({statement('session_evaluations', 'spangrade.evaluator.derive.sync.sql')}) "  # noqa: S608 (our own text)
        "SEMI JOIN wanted USING (session_id)",
        wanted=wanted,
    )
    by_session: dict[str, list[Evaluation]] = {}
    for session_id, time_ns, event_name, attributes, scope_name in rows:
        log = LogRecord(
            None, None, time_ns, event_name, attributes=orjson.loads(attributes), scope_name=scope_name
        )
        if score := evaluation_of_log(log):
            by_session.setdefault(session_id, []).append(score)
    return by_session


def save_scores(store: Store, session_ids: Iterable[str]) -> None:
    """Copy the derived scores of sessions to the table `scores`, within the caller's transaction."""
    ids = list(session_ids)
    delete_scores(store, ids)
    wanted = arrow_column("session_id", ids)
    store.query(statement("save_scores", "spangrade.evaluator.derive.sync.sql"), wanted=wanted)


def delete_scores(store: Store, session_ids: Iterable[str] | None = None) -> None:
    """Delete the copies of the derived scores, of all sessions or of some."""
    query = "DELETE FROM scores WHERE run_id IS NULL AND source = 'trace'"
    if session_ids is None:
        store.query(query)
    else:
        wanted = arrow_column("session_id", list(session_ids))
        store.query(f"{query} AND session_id IN (FROM wanted)", wanted=wanted)
