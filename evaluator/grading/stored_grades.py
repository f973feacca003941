"""Stored grades: the verdict that a session shows, and its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics.causes import Evidence, leading_causes, path_of, place_json
from spangrade.evaluator.metrics.stored_values import stored_evidence, stored_thresholds
from spangrade.evaluator.results.views import with_views
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

FAILED = (str(Verdict.FAILED), str(Verdict.BROKEN))


class StoredScore(NamedTuple):
    """One metric's outcome, as the table `scores` has it, with the ids of the spans that are its evidence."""

    metric: str
    value: float | None
    passed: bool | None
    outcome: str
    reason: str | None
    evidence: tuple[Evidence, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        evidence = [place_json(one) for one in self.evidence]
        return {**self._asdict(), "evidence": evidence, "paths": [path_of(one) for one in self.evidence]}


class StoredGrade(NamedTuple):
    """A verdict on a session, and the run that gave it; `run` is the name of that, if it has one.

    `graded_at` is in UTC; with `arrived_since` more of the session arrived after it was graded. `thresholds`
    are those of the gates of the run, None if they were not stored. `scores` are in the order in which the
    metrics ran. `policy` is the latest verdict by gates alone, where this one is by a golden question.
    """

    run_id: str
    run: str | None
    graded_at: datetime
    dataset: str
    question_id: str | None
    verdict: str
    reason: str
    arrived_since: bool = False
    thresholds: Mapping[str, str] | None = None
    scores: tuple[StoredScore, ...] = ()
    policy: StoredGrade | None = None

    @property
    def causes(self) -> tuple[Evidence, ...]:
        """The evidence of the failed gates, each place once, the most telling first."""
        return leading_causes((one.metric, one.evidence) for one in self.scores if one.passed is False)

    @property
    def run_named(self) -> str:
        """The name of the run, else the beginning of its id."""
        return self.run or self.run_id[:8]

    def to_json(self) -> dict[str, Any]:
        """Return the grade as the JSON values that `spangrade show --format json` prints."""
        return {
            **self._asdict(),
            "graded_at": self.graded_at.isoformat(),
            "scores": [score.to_json() for score in self.scores],
            "policy": self.policy and self.policy.to_json(),
        }


def latest_grade(store: Store, session_id: str) -> StoredGrade | None:
    """Return the grade that a session shows; None if no run graded it."""
    return grades_of(store, [session_id]).get(session_id)


def grades_of(
    store: Store, session_ids: Sequence[str], run_id: str | None = None
) -> Mapping[str, StoredGrade]:
    """Return the grades of sessions by id: those of a run or, without a run, those that the sessions show."""
    found: dict[str, list[StoredGrade]] = {}
    for session_id, *values, thresholds in store.query(
        with_views(_sql("session_grades")), {"sessions": session_ids, "run_id": run_id}
    ):
        known = None if thresholds is None else stored_thresholds(thresholds)
        found.setdefault(session_id, []).append(StoredGrade._make((*values, known, (), None)))
    of_runs: dict[str, list[str]] = {}
    for session_id, grades in found.items():
        for grade in grades:
            of_runs.setdefault(grade.run_id, []).append(session_id)
    scores: dict[tuple[str, str], list[StoredScore]] = {}
    for of_run, ids in of_runs.items():
        for session_id, *score, evidence in store.query(
            _sql("session_scores"), {"run_id": of_run, "sessions": ids}
        ):
            made = StoredScore._make((*score, stored_evidence(evidence)))
            scores.setdefault((of_run, session_id), []).append(made)
    shown = {}
    for session_id, grades in found.items():
        first, *others = (
            one._replace(scores=tuple(scores.get((one.run_id, session_id), ()))) for one in grades
        )
        shown[session_id] = first._replace(policy=others[0] if others else None)
    return shown


def failed_sessions(store: Store) -> set[str]:
    """Return the sessions whose verdict is failed or broken."""
    query = with_views(f"SELECT session_id FROM {{grades}} WHERE shown AND verdict IN {FAILED}")  # noqa: S608 (ours)
    return {session_id for (session_id,) in store.query(query)}


def _sql(name: str) -> str:
    return statement(name, "spangrade.evaluator.grading")
