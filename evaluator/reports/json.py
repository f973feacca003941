"""Sessions, metrics and runs as JSON values, and the files of a run: results.json and sessions.jsonl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from spangrade.evaluator.grading.grade import Grade
from spangrade.evaluator.metrics import Inconclusive, Metric, Outcome, Score
from spangrade.evaluator.run import Run
from spangrade.evaluator.session import Session
from spangrade.tracer.canonical_json import dumps
from spangrade.tracer.errors import InputError


def grade_json(grade: Grade) -> dict[str, Any]:
    """Return a grade as the JSON values of a line of sessions.jsonl."""
    return {
        "session_id": grade.session_id,
        "question_id": grade.question_id,
        "verdict": grade.verdict.value,
        "reason": grade.reason,
        "metrics": {name: _outcome_json(outcome) for name, outcome in grade.outcomes.items()},
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Score):
        return {"outcome": "score", **outcome._asdict()}
    if isinstance(outcome, Inconclusive):
        return {"outcome": "inconclusive", "reason": outcome.reason}
    return {"outcome": "failure", "error": outcome.error}


def written(grades: Iterable[Grade], folder: Path) -> Iterator[Grade]:
    """Yield grades, each also written to `folder/sessions.jsonl`.

    Raises InputError if the file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lines = (folder / "sessions.jsonl").open("wb")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error
    with lines:
        for grade in grades:
            lines.write(f"{dumps(grade_json(grade))}\n".encode())
            yield grade


def write_results(run: Run, folder: Path) -> None:
    """Write a run's totals to `folder/results.json`. Raises InputError if the file cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(dumps(run.to_json(), indent=True), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def session_json(s: Session) -> dict[str, Any]:
    """Return a session as the JSON values that `spangrade show --format json` prints; null is unknown."""
    return {
        "session_id": s.session_id,
        "session_id_source": s.session_id_source,
        "question_id": s.question_id,
        "turns": [
            {
                "index": t.turn,
                "user_input": t.user_input,
                "final_response": t.final_response,
                "latency_s": t.latency_s,
                "trace_ids": t.trace_ids,
            }
            for t in s.turns
        ],
        "trajectory": [{"kind": step.kind, "name": step.name} for step in s.trajectory],
        "agents": s.agents,
        "tool_interactions": [
            {
                "tool_name": t.tool_name,
                "input_arguments": t.input_arguments,
                "output": t.output,
                "ok": t.ok,
                "error": t.error,
                "call_id": t.call_id,
                "agent": t.agent,
                "turn": t.turn,
                "latency_s": t.latency_s,
                "handoff": t.handoff,
            }
            for t in s.tool_interactions
        ],
        "handoffs": s.handoffs,
        "state_variables": s.state_variables,
        "usage": s.usage,
        "models": s.models,
        "cost_usd": s.cost_usd,
        "cost_unknown": s.cost_unknown,
        "latency": s.latency,
        "errors": [{"where": e.where, "message": e.message} for e in s.errors],
        "missing_spans": s.missing_spans,
        "sampled": s.sampled,
    }


def metric_json(m: Metric) -> dict[str, Any]:
    """Return a metric as the JSON values that `spangrade metrics --format json` prints."""
    return {
        "name": m.name,
        "unit": m.unit,
        "lowest": m.bounds[0] if isfinite(m.bounds[0]) else None,
        "highest": m.bounds[1] if isfinite(m.bounds[1]) else None,
        "better": {True: "higher", False: "lower", None: None}[m.higher_is_better],
        "threshold": m.threshold,
        "needs": m.needs,
        "parameter": m.parameter,
        "choices": m.choices,
        "agents": m.agents,
        "description": m.description,
    }
