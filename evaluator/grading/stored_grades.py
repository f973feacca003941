"""What the database keeps of grades: the verdict that a session shows, and its scores."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from spangrade.evaluator.grading.policy import Verdict
from spangrade.evaluator.results.views import with_views
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

FAILED = (str(Verdict.FAILED), str(Verdict.BROKEN))


class StoredScore(NamedTuple):
    """One metric's outcome, as the table `scores` has it."""

    metric: str
    value: float | None
    passed: bool | None
    outcome: str
    reason: str | None


class StoredGrade(NamedTuple):
    """A verdict on a session, and the run that gave it; `run` is the name of that, if it has one.

    `graded_at` is in UTC; with `arrived_since` more of the session arrived after it was graded. `scores` are
    in the order in which the metrics ran. `policy` is the latest verdict by gates alone, where this one is by
    a golden question.
    """

    run_id: str
    run: str | None
    graded_at: datetime
    dataset: str
    question_id: str | None
    verdict: str
    reason: str
    arrived_since: bool
    scores: tuple[StoredScore, ...]
    policy: StoredGrade | None = None

    @property
    def run_named(self) -> str:
        """The name of the run, else the beginning of its id."""
        return self.run or self.run_id[:8]

    def to_json(self) -> dict[str, Any]:
        """Return the grade as the JSON values that `spangrade show --format json` prints."""
        return {
            **self._asdict(),
            "graded_at": self.graded_at.isoformat(),
            "scores": [score._asdict() for score in self.scores],
            "policy": self.policy and self.policy.to_json(),
        }


def latest_grade(store: Store, session_id: str) -> StoredGrade | None:
    """Return the grade that a session shows; None if no run graded it."""
    query = with_views(statement("session_grades", "spangrade.evaluator.grading"))
    grades = [
        StoredGrade._make((*row, _scores(store, row[0], session_id), None))
        for row in store.query(query, {"session_id": session_id})
    ]
    return grades[0]._replace(policy=grades[1] if grades[1:] else None) if grades else None


def _scores(store: Store, run_id: str, session_id: str) -> tuple[StoredScore, ...]:
    rows = store.query(
        "SELECT metric, value, passed, outcome, reason FROM scores "
        "WHERE run_id = $run_id AND session_id = $session_id ORDER BY rowid",
        {"run_id": run_id, "session_id": session_id},
    )
    return tuple(StoredScore(*score) for score in rows)


def failed_sessions(store: Store) -> set[str]:
    """Return the sessions whose verdict is failed or broken."""
    query = with_views(f"SELECT session_id FROM {{grades}} WHERE shown AND verdict IN {FAILED}")  # noqa: S608 (ours)
    return {session_id for (session_id,) in store.query(query)}
