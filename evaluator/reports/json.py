"""Sessions, metrics and runs as JSON values, and the files of a run: results.json and sessions.jsonl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spangrade.converters.datasets.files import create, create_text, writing
from spangrade.evaluator.grading.run import Grade, Run, unmeasured
from spangrade.evaluator.metrics import Failure, Metric, Outcome, Score
from spangrade.evaluator.metrics.causes import Cause, causes_text, leading_causes, path_of, place_json
from spangrade.evaluator.metrics.external import ExternalScore
from spangrade.evaluator.metrics.stored_values import stored_tags
from spangrade.evaluator.session import utc_text
from spangrade.tracer.base.canonical_json import dumps


def grade_json(grade: Grade) -> dict[str, Any]:
    """Return a grade as the JSON values of a line of sessions.jsonl."""
    return {
        "session_id": grade.session_id,
        "question_id": grade.question_id,
        "verdict": grade.verdict.value,
        "reason": grade.reason,
        "metrics": {name: _outcome_json(outcome) for name, outcome in grade.outcomes.items()},
        **({} if grade.trajectory is None else {"trajectory": list(grade.trajectory)}),
        **({"notes": list(grade.notes)} if grade.notes else {}),
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Score):
        return {
            "outcome": "bound" if outcome.is_bound else "score",
            "value": outcome.value,
            "passed": outcome.passed,
            "reason": outcome.reason,
            "evidence": [place_json(one) for one in outcome.evidence],
            "details": outcome.details,
            **({"paths": [path_of(one) for one in outcome.evidence]} if outcome.evidence else {}),
        }
    kind, reason = unmeasured(outcome)
    return {"outcome": kind, "error" if isinstance(outcome, Failure) else "reason": reason}


def grade_line(grade: Grade) -> bytes:
    """Return a grade as a line of sessions.jsonl."""
    return f"{dumps(grade_json(grade))}\n".encode()


def places_text(session: Mapping[str, Any]) -> str:
    """Return the first causes of the gates that a line of sessions.jsonl has as failed, empty without any."""
    failed = (
        (name, (_cause(*one) for one in zip(outcome["evidence"], outcome["paths"], strict=True)))
        for name, outcome in session["metrics"].items()
        if outcome.get("passed") is False and outcome.get("paths")
    )
    return causes_text(leading_causes(failed))


def _cause(place: str | Mapping[str, str | None], path: str) -> Cause:
    return Cause(place, path) if isinstance(place, str) else Cause(None, path, **place)


def written(grades: Iterable[Grade], folder: Path) -> Iterator[Grade]:
    """Yield grades, each also written to `folder/sessions.jsonl`.

    Raises InputError if the file cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lines = create(folder / "sessions.jsonl")
    try:
        for grade in grades:
            with writing(folder):
                lines.write(grade_line(grade))
            yield grade
    finally:
        with writing(folder):
            lines.close()


def write_results(run: Run, folder: Path, about: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Write a run's totals, and what else there is `about` it, to `folder/results.json`.

    Raises InputError if the file cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        create_text(folder / "results.json", dumps({**run.to_json(), **about}, indent=True))


def run_json(run: Run) -> dict[str, Any]:
    """Return a run as the JSON values that `spangrade grade --format json` prints: totals and verdicts.

    `grades` has an entry per session, and one without a `session_id` per unanswered golden question.
    """
    grades = [session._asdict() for session in run.sessions]
    return {"run_id": run.run_id, **run.to_json(), "grades": grades}


def stored_run_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the stored runs as the JSON values that `spangrade runs --format json` prints."""
    return {**row, "tags": stored_tags(row["tags"])}


def external_score_json(score: ExternalScore) -> dict[str, Any]:
    """Return a score as the JSON values that `spangrade show --format json` prints."""
    values = {name: value for name, value in score._asdict().items() if name not in ("session_id", "time_ns")}
    return {**values, "scored_at": utc_text(score.time_ns)}


def metric_json(m: Metric) -> dict[str, Any]:
    """Return a metric as the JSON values that `spangrade lint --metrics --format json` prints."""
    return {
        "name": m.name,
        "unit": m.unit,
        "lowest": m.bounds[0] if isfinite(m.bounds[0]) else None,
        "highest": m.bounds[1] if isfinite(m.bounds[1]) else None,
        "better": {True: "higher", False: "lower", None: None}[m.higher_is_better],
        "threshold": m.threshold,
        "needs": m.needs,
        "parameters": {name: list(choices) for name, choices in m.parameters},
        "agents": m.agents,
        "description": m.description,
    }
