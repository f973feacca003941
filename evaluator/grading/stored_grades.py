"""What the database keeps of grades: the latest verdict on a session, and its scores."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

LATEST_VERDICTS = statement("latest_verdicts", "spangrade.evaluator.grading")


class StoredScore(NamedTuple):
    """One metric's outcome, as the table `scores` has it."""

    metric: str
    value: float | None
    passed: bool | None
    outcome: str
    reason: str | None


class StoredGrade(NamedTuple):
    """The grade of a session in the latest run that graded it.

    `graded_at` is in UTC. `scores` are in the order in which the metrics ran.
    """

    run_id: str
    graded_at: datetime
    dataset: str
    question_id: str | None
    verdict: str
    reason: str
    scores: tuple[StoredScore, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the grade as the JSON values that `spangrade show --format json` prints."""
        scores = [score._asdict() for score in self.scores]
        return {**self._asdict(), "graded_at": self.graded_at.isoformat(), "scores": scores}


def latest_grade(store: Store, session_id: str) -> StoredGrade | None:
    """Return a session's grade in the latest run that graded it; None if none did."""
    found = store.query(
        "SELECT run_id, graded_at, dataset, question_id, verdict, reason "  # noqa: S608 (our own text)
        f"FROM ({LATEST_VERDICTS}) WHERE session_id = $session_id",
        {"session_id": session_id},
    )
    if not found:
        return None
    run_id, graded_at, dataset, question_id, verdict, reason = found[0]
    scores = store.query(
        "SELECT metric, value, passed, outcome, reason FROM scores "
        "WHERE run_id = $run_id AND session_id = $session_id ORDER BY rowid",
        {"run_id": run_id, "session_id": session_id},
    )
    return StoredGrade(
        run_id,
        graded_at,
        dataset,
        question_id,
        verdict,
        reason,
        tuple(StoredScore(*score) for score in scores),
    )


def failed_sessions(store: Store) -> set[str]:
    """Return the sessions that missed a gate in the latest run that graded them."""
    return {
        session_id
        for (session_id,) in store.query(statement("failed_sessions", "spangrade.evaluator.grading"))
    }
