"""Outcomes as OpenTelemetry events, `gen_ai.evaluation.result`, each on the span that it is about."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from spangrade import __version__
from spangrade.evaluator.grading.prepare import MAY_ASK_JUDGE
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.metrics import Failure, Inconclusive, Metric, Outcome, Score
from spangrade.evaluator.metrics.causes import span_ids
from spangrade.evaluator.metrics.registry import installed_versions, load_metrics
from spangrade.evaluator.session import Session
from spangrade.tracer import semconv

_LABELS = {True: "pass", False: "fail", None: None}


class _Recorded(Protocol):
    @property
    def trace_id(self) -> str: ...
    @property
    def span_id(self) -> str | None: ...


class SpanPlace(NamedTuple):
    """A span, or with `span_id` None a trace."""

    trace_id: str
    span_id: str | None


def evaluator_of(metric: Metric, judge: str | None) -> dict[str, str]:
    """Return what is known of who evaluates by a metric: its type and, if it asks it, the judge of the run.

    Nothing is known of a metric that is not ours, nor of one that asks the judge about some sessions only.
    """
    name = metric.name.partition(":")[0]
    installed = load_metrics().get(name)
    is_ours = installed_versions().get(name, "").startswith("spangrade ")
    if installed is None or not is_ours or installed.version != metric.version:
        return {}
    if inspect.iscoroutinefunction(metric.function):
        asked = {} if judge is None else {semconv.JUDGE: judge}
        return {semconv.EVALUATOR_TYPE: "llm_judge", **asked}
    if metric.needs in MAY_ASK_JUDGE and judge is not None:
        return {}
    return {semconv.EVALUATOR_TYPE: "deterministic"}


def events_of(
    session: Session, grade: Grade, evaluators: Mapping[str, Mapping[str, str]], run_id: str
) -> list[dict[str, Any]]:
    """Return the events of the outcomes of some metrics in a run, as JSON values.

    `evaluators` has what is known of who evaluates by each of the metrics; see `evaluator_of`.
    `trace_id` and `span_id` are those of the first span of a score's evidence, else those of the agent's run
    in the last turn.
    """
    places = {place.span_id: place for place in _places(session)}
    default = _run_of_last_turn(session)
    events = []
    for name, outcome in grade.outcomes.items():
        attributes = _attributes(name, outcome) if name in evaluators else None
        if attributes is None:
            continue
        evidence = span_ids(outcome.evidence) if isinstance(outcome, Score) else ()
        place = next((places[span_id] for span_id in evidence if span_id in places), default)
        common = {
            semconv.CONVERSATION_ID: session.session_id,
            semconv.EVALUATOR_NAME: "spangrade",
            semconv.EVALUATOR_VERSION: __version__,
            **evaluators[name],
            semconv.RUN_ID: run_id,
            "spangrade.verdict": grade.verdict.value,
            **({} if grade.question_id is None else {semconv.QUESTION_ID: grade.question_id}),
        }
        events.append(
            {"trace_id": place.trace_id, "span_id": place.span_id, "attributes": attributes | common}
        )
    return events


def _attributes(name: str, outcome: Outcome) -> dict[str, Any] | None:
    """Return the attributes of an outcome's event; None if there is no event for it."""
    attributes: dict[str, Any] = {semconv.EVALUATION_NAME: name}
    if isinstance(outcome, Score):
        attributes[semconv.EVALUATION_SCORE_VALUE] = outcome.value
        label, explanation = _LABELS[outcome.passed], outcome.reason
    elif isinstance(outcome, Inconclusive):
        label, explanation = "inconclusive", outcome.reason
    elif isinstance(outcome, Failure):
        label, explanation = "error", outcome.error
        attributes[semconv.ERROR_TYPE] = "judge_failure" if outcome.by_judge else "metric_failure"
    else:
        return None
    if label is not None:
        attributes[semconv.EVALUATION_SCORE_LABEL] = label
    if explanation:
        attributes[semconv.EVALUATION_EXPLANATION] = explanation
    return attributes


def _places(session: Session) -> Iterator[SpanPlace]:
    kinds: tuple[Iterable[_Recorded], ...] = (
        session.trajectory,
        session.tool_interactions,
        session.requested_calls,
        session.llm_calls,
        session.errors,
    )
    for records in kinds:
        for record in records:
            yield SpanPlace(record.trace_id, record.span_id)


def _run_of_last_turn(session: Session) -> SpanPlace:
    if not session.turns:
        return next(_places(session), SpanPlace("", None))
    last = session.turns[-1]
    runs = [step for step in session.trajectory if step.turn == last.turn and step.kind == "agent"]
    calls = [call for call in session.llm_calls if call.turn == last.turn]
    records: tuple[_Recorded, ...] = (*runs, *calls)
    for record in records:
        if record.span_id:
            return SpanPlace(record.trace_id, record.span_id)
    return SpanPlace(last.trace_ids[-1] if last.trace_ids else "", None)
