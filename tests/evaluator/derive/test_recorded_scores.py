"""Scores that traces record: read from every place, derived with the session, and copied to `scores`."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from made_once import new_store

import spangrade
from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.derive import update
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.session import RecordedScore
from spangrade.tracer.semconv import SCOPE_OF_WATCH
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store

AGENT = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "shop",
    "gen_ai.conversation.id": "c",
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]',
    "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}]',
}
RESULT = "gen_ai.evaluation.result"
HELPFUL = {
    "gen_ai.evaluation.name": "helpful",
    "gen_ai.evaluation.score.value": 0.5,
    "gen_ai.evaluation.score.label": "fail",
    "gen_ai.evaluation.explanation": "too short",
}
SCORE = RecordedScore("helpful", 0.5, "fail", "too short", "grader", 1, 7, "t1", "agent")


def span(trace_id: str = "t1", span_id: str = "agent", at: int = 0, **changes: Any) -> Span:
    made = Span(trace_id, span_id, None, "invoke_agent shop", "INTERNAL", at, at + 10, attributes=AGENT)
    return made._replace(**{"scope_name": "grader", **changes})


def with_attributes(**attributes: Any) -> Span:
    return span(attributes={**AGENT, **attributes})


def log(**changes: Any) -> LogRecord:
    made = LogRecord("t1", "agent", 7, RESULT, attributes=HELPFUL, scope_name="grader")
    return made._replace(**changes)


def scores_of(db: Path, *records: Span | LogRecord) -> tuple[RecordedScore, ...]:
    with Store.open(db) if db.exists() else new_store(db) as store:
        store.add(records)
    (session,) = spangrade.open(db).sessions()
    assert (session.not_understood, session.missing_spans) == (0, 0)
    return session.recorded_scores


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([span(), log()], SCORE, id="log of a span"),
        pytest.param(
            [span(), log(event_name=None, attributes={**HELPFUL, "event.name": RESULT})],
            SCORE,
            id="log with its name as an attribute",
        ),
        pytest.param(
            [span(events=[{"name": RESULT, "time_ns": 7, "attributes": HELPFUL}])], SCORE, id="span event"
        ),
        pytest.param([span(), log(span_id=None)], SCORE._replace(span_id=None), id="log of a trace"),
        pytest.param(
            [span(), log(span_id="lost")], SCORE._replace(span_id=None), id="log of a span that is missing"
        ),
        pytest.param(
            [
                span(),
                log(trace_id=None, span_id=None, attributes={**HELPFUL, "gen_ai.conversation.id": "c"}),
            ],
            SCORE._replace(turn=None, trace_id=None, span_id=None),
            id="log of a conversation",
        ),
        pytest.param(
            [
                span(),
                span(
                    "t2",
                    "feedback",
                    50,
                    name="feedback",
                    attributes={"gen_ai.conversation.id": "c", **HELPFUL},
                ),
            ],
            SCORE._replace(turn=None, time_ns=60, trace_id="t2", span_id="feedback"),
            id="span of its own, in another trace",
        ),
        pytest.param(
            [
                with_attributes(
                    **{
                        "annotations.0.annotation.name": "helpful",
                        "annotations.0.annotation.score": 0.5,
                        "annotations.0.annotation.label": "fail",
                        "annotations.0.annotation.explanation": "too short",
                        "annotations.0.annotation.annotator_kind": "HUMAN",
                        "annotations.0.annotation.identifier": "grader",
                    }
                )
            ],
            SCORE._replace(time_ns=10),
            id="OpenInference, annotation of a span",
        ),
        pytest.param(
            [
                with_attributes(
                    **{
                        "trace.evaluations.0.evaluation.name": "helpful",
                        "trace.evaluations.0.evaluation.score": 1,
                        "trace.evaluations.0.evaluation.annotator_kind": "LLM",
                    }
                )
            ],
            RecordedScore("helpful", 1.0, None, "", "LLM", 1, 10, "t1", None),
            id="OpenInference, evaluation of a trace",
        ),
        pytest.param(
            [
                with_attributes(
                    **{
                        "session.annotations.0.annotation.name": "mood",
                        "session.annotations.0.annotation.label": "angry",
                    }
                )
            ],
            RecordedScore("mood", None, "angry", "", None, None, 10, "t1", None),
            id="OpenInference, annotation of a session",
        ),
        pytest.param(
            [
                with_attributes(
                    **{
                        "langfuse.score.name": "thumbs",
                        "langfuse.score.value": 0,
                        "langfuse.score.comment": "wrong",
                        "langfuse.score.source": "API",
                    }
                )
            ],
            RecordedScore("thumbs", 0.0, None, "wrong", "API", 1, 10, "t1", None),
            id="Langfuse",
        ),
    ],
)
@pytest.mark.short_form("records", 7)
def test_a_score_is_read_from_each_place(
    tmp_path: Path, records: list[Span | LogRecord], expected: RecordedScore
) -> None:
    assert scores_of(tmp_path / "s.duckdb", *records) == (expected,)


@pytest.mark.parametrize(
    "record",
    [
        log(attributes={"gen_ai.evaluation.name": "empty"}),
        log(attributes={"gen_ai.evaluation.score.value": 1.0}),
        log(attributes={**HELPFUL, "gen_ai.evaluation.name": 3}),
        log(scope_name=SCOPE_OF_WATCH),
        log(event_name="other"),
    ],
)
@pytest.mark.short_form("record", 3)
def test_what_is_not_a_score_of_others_is_left_out(tmp_path: Path, record: LogRecord) -> None:
    assert scores_of(tmp_path / "s.duckdb", span(), record) == ()


def rows(db: Path) -> list[dict[str, Any]]:
    columns = "session_id, metric, value, passed, label, source, author, turn, reason, evidence"
    return spangrade.open(db).sql(f"SELECT {columns} FROM scores ORDER BY ALL").rows()


@pytest.mark.exhaustive
def test_they_are_rows_of_scores_once_however_often_they_are_derived(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    scores_of(db, span(), log(), log(time_ns=8, attributes={**HELPFUL, "gen_ai.evaluation.name": "calm"}))
    helpful = {
        "session_id": "c",
        "metric": "helpful",
        "value": 0.5,
        "passed": False,
        "label": "fail",
        "source": "trace",
        "author": "grader",
        "turn": 1,
        "reason": "too short",
        "evidence": '["agent"]',
    }
    expected = [helpful | {"metric": "calm"}, helpful]
    assert rows(db) == expected
    opened = spangrade.open(db)
    opened.score("c", {"thumbs": 1}, by="ann")
    opened.derive(all=True)
    scores_of(db, log(), log(time_ns=9, event_name="other"))  # a late record: the session is derived again
    assert [row for row in rows(db) if row["source"] == "trace"] == expected
    assert [row["metric"] for row in rows(db) if row["source"] == "person"] == ["thumbs"]


@pytest.mark.exhaustive
def test_the_order_and_the_portions_of_arrival_make_no_difference(tmp_path: Path) -> None:
    records = [
        span(events=[{"name": RESULT, "time_ns": 7, "attributes": HELPFUL}]),
        span("t2", "second", 100),
        log(span_id=None),
        log(time_ns=9),
        log(trace_id=None, span_id=None, attributes={**HELPFUL, "gen_ai.conversation.id": "c"}),
    ]
    expected = scores_of(tmp_path / "once.duckdb", *records)
    assert len(expected) == 4
    for seed in range(3):
        db = tmp_path / f"{seed}.duckdb"
        with new_store(db) as store:
            for record in random.Random(seed).sample(records, len(records)):
                store.add([record])
                update(store)
        assert scores_of(db) == expected
        assert rows(db) == rows(tmp_path / "once.duckdb")


@pytest.mark.exhaustive
def test_a_score_of_a_trace_gates_is_filtered_by_and_is_a_metric(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    scores_of(
        db, span(), log(), log(time_ns=20, attributes={**HELPFUL, "gen_ai.evaluation.score.value": 0.9})
    )
    opened = spangrade.open(db)
    gates = ("helpful>=0.8", "helpful>=0.95", "helpful>=-1", "other>=1")
    verdicts = {
        gate: opened.watch(gates=gate, options=WatchOptions(once=True)).verdicts
        for gate in (f"trace_score:{gate}" for gate in gates)
    }
    assert verdicts == {
        "trace_score:helpful>=-1": {Verdict.PASSED: 1},
        "trace_score:helpful>=0.8": {Verdict.PASSED: 1},
        "trace_score:helpful>=0.95": {Verdict.FAILED: 1},
        "trace_score:other>=1": {Verdict.UNMATCHED: 1},
    }
    low = "SELECT session_id FROM recorded_scores WHERE name = 'helpful' AND value < 0.6"
    assert [row["session_id"] for row in opened.sql(low)] == ["c"]
    assert [row["recorded_scores"] for row in opened.sql("SELECT recorded_scores FROM sessions")] == [2]


@pytest.mark.exhaustive
def test_feedback_that_arrives_late_grades_a_session_again(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    scores_of(db, span())
    opened = spangrade.open(db)
    gate, now = "trace_score:thumbs>=1", WatchOptions(once=True, idle_s=0)
    assert opened.watch(gates=gate, options=now).verdicts == {Verdict.UNMATCHED: 1}
    scores_of(db, log(attributes={"gen_ai.evaluation.name": "thumbs", "gen_ai.evaluation.score.value": 0}))
    assert opened.watch(gates=gate, options=now).verdicts == {Verdict.FAILED: 1}
