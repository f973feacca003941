"""Grades of sessions as values: what is asked for is prepared and graded as at every door."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from builders import built_session, observed_fields
from otlp_sessions import golden_questions

from spangrade import Gates, GradeSpec, Selection
from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.grading import grade as grading
from spangrade.evaluator.grading.policy import why_incomplete
from spangrade.evaluator.grading.prepare import prepare
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.grading.run_metric import resolve, start
from spangrade.evaluator.metrics import Metric, Outcome
from spangrade.evaluator.session import Session
from spangrade.tracer.otlp.json import decode
from spangrade.tracer.span import Span

NO_GATES, ALL = Gates(), Selection()


def grade(
    sessions: Iterable[Session],
    dataset: GoldenDataset,
    requested: Iterable[Metric] = (),
    without: Collection[str] = (),
    answers: Mapping[str, str] | None = None,
    root_agent_name: str = "app",
) -> Iterator[Grade]:
    """Yield a grade for each session, in order, then one for each question that no session answers."""
    questions = [one.model_dump(mode="json", exclude_unset=True) for one in dataset.golden_questions]
    gates = Gates(tuple(requested), no_reference=tuple(without), root_agent_name=root_agent_name)
    spec = GradeSpec(questions, gates, Selection(answers=answers or {}))
    return grading.grade(prepare(spec, None), sessions)


def run_metric(metric: Metric, session: Session, question: GoldenQuestion | None) -> Outcome:
    """Return a metric's outcome for a session, with the metric's threshold applied."""
    return resolve(metric, start(metric, session, question, why_incomplete(session)))


def grade_recorded(
    recorded: Mapping[str, Any],
    references: Mapping[str, Any],
    gates: Gates = NO_GATES,
    select: Selection = ALL,
    **more: Any,
) -> Grade:
    """Return the grade of the one session `s1` in OTLP JSON, against a golden question of these references.

    `more` are further fields of the spec. It is what the command `grade` stores of it, without a database:
    that costs a hundred times as much.
    """
    spans = [record for record in decode(recorded) if isinstance(record, Span)]
    session = built_session("s1", "conversation", observed_fields(spans))
    spec = GradeSpec(golden_questions({"id": "q1", **references}), gates, select, **more)
    (only,) = grading.grade(prepare(spec, None), [session])
    return only
