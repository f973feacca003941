"""The verdicts of a metric and the labels of people, as a database has them."""

from __future__ import annotations

from spangrade.evaluator.statistics.agreement.agreement import Judged, Label
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement


def stored_labels(store: Store, metric: str) -> list[Label]:
    """Return the labels of what a metric measures, one per session and person."""
    return [Label._make(row) for row in store.query(_sql("labels"), {"metric": metric})]


def stored_verdicts(store: Store, metric: str, threshold: float | None) -> list[Judged]:
    """Return the verdict on each session of the latest run that measured a metric.

    A score has the verdict of its run or, with a `threshold`, passes if it meets this. An outcome that is not
    a score is not a verdict. Raises InputError if no run measured the metric, or if no score has a verdict.
    """
    rows = store.query(_sql("judged_sessions"), {"metric": metric})
    if not rows:
        raise InputError(f"no run measured {metric}: spangrade grade --metric '{metric}>=THRESHOLD' does")
    judged = []
    for session_id, outcome, value, passed, reason, higher_is_better in rows:
        verdict = passed if outcome == "score" else None
        if threshold is not None and outcome == "score" and value is not None:
            verdict = value <= threshold if higher_is_better is False else value >= threshold
        judged.append(Judged(session_id, verdict, value, reason or ""))
    if threshold is None and all(one.passed is None for one in judged):
        raise InputError(
            f"no score of {metric} has a verdict: grade by {metric}>=THRESHOLD, or give a threshold"
        )
    return judged


def latest_run_of(store: Store, metric: str) -> tuple[str, dict[str, tuple[float, bool]]]:
    """Return the latest run with verdicts of a metric, and its value and verdict of each session.

    Raises InputError if there is none.
    """
    rows = store.query(_sql("latest_run_of"), {"metric": metric})
    if not rows:
        raise InputError(
            f"no run has verdicts of {metric}: spangrade grade --metric '{metric}>=THRESHOLD' does"
        )
    return rows[0][0], {session_id: (value, passed) for _, session_id, value, passed in rows}


def _sql(name: str) -> str:
    return statement(name, "spangrade.evaluator.statistics.agreement")
