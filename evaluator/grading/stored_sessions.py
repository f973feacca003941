"""The stored sessions: their list in an order, an id by its beginning, the grade that each shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import Any, NamedTuple

from spangrade.evaluator.derive.schema import SESSIONS
from spangrade.evaluator.grading.verdict import PRECEDENCE, Verdict
from spangrade.evaluator.metrics.causes import Evidence, leading_causes, path_of, place_json
from spangrade.evaluator.metrics.stored_values import stored_evidence, stored_thresholds
from spangrade.evaluator.results.origin import listed_origin, origin_condition
from spangrade.evaluator.results.session_sort import SessionSort
from spangrade.evaluator.results.views import sessions_query, with_views
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.span import Problem
from spangrade.tracer.store import Store
from spangrade.tracer.store.query import Rows
from spangrade.tracer.store.sql import statement, text_literal

GRAVEST_FIRST = (*PRECEDENCE, Verdict.UNMATCHED, Verdict.PASSED)
_ORDER_BY = {
    SessionSort.START: "start_ns",
    SessionSort.NEWEST: "start_ns DESC NULLS LAST",
    SessionSort.LATENCY: "total_s DESC NULLS LAST",
    SessionSort.COST: "cost_usd DESC NULLS LAST",
    SessionSort.TOKENS: "input_tokens + output_tokens DESC NULLS LAST",
    SessionSort.ERRORS: "errors DESC NULLS LAST",
    SessionSort.VERDICT: f"list_position({[*map(str, GRAVEST_FIRST)]}, verdict) NULLS LAST",
}
FAILED = (str(Verdict.FAILED), str(Verdict.BROKEN))


def list_sessions(
    store: Store,
    *,
    failed: bool = False,
    stale: bool = False,
    sort: str = SessionSort.NEWEST,
    limit: int | None = None,
    origin: str | None = None,
    among: Collection[str] | None = None,
) -> Rows:
    """Return a row per session: the columns of the view `sessions`, `first_input` and `short_id`.

    `first_input` are the first words of the user, `short_id` is a beginning of the id that names it alone.

    With `failed`, list the sessions whose verdict is failed or broken; with `stale`, those of which more
    arrived after their verdict; with `among`, those with these ids. Without an `origin`, list those of
    production, or all as long as there is none.

    Raises InputError for an `origin` that is not in `OriginFilter`, a `sort` that is not in `SessionSort`, or
    a `limit` below 1.
    """
    if sort not in set(SessionSort):
        raise InputError(f"cannot sort by {sort!r}: expected one of {', '.join(SessionSort)}")
    if limit is not None and limit < 1:
        raise InputError(f"the limit is {limit}: expected at least 1")
    chosen = f"verdict IN {FAILED}" if failed else "true"
    if stale:
        chosen += " AND (run_id, session_id) IN {arrived_since}"
    if among is not None:
        chosen += f" AND session_id IN ({', '.join(map(text_literal, among)) or 'NULL'})"
    by_verdict = failed or stale or sort == SessionSort.VERDICT
    query = statement("session_list", "spangrade.evaluator.grading").format(
        graded="LEFT JOIN (FROM {grades} WHERE shown) AS graded USING (session_id)" if by_verdict else "",
        chosen=f"{chosen} AND {origin_condition(listed_origin(store, origin))}",
        order=_ORDER_BY[SessionSort(sort)],
        most="" if limit is None else f"LIMIT {limit:d}",
        sessions=sessions_query(SESSIONS.selected, "SEMI JOIN listed USING (session_id)"),
    )
    return Rows.of(store.connection.sql(with_views(query)))


def find_session_id(store: Store, prefix: str) -> str:
    """Return the id of the session that an id, or an unambiguous beginning of one, names.

    Raises InputError if there is none, or more than one.
    """
    rows = store.query(
        "SELECT session_id FROM derived.sessions WHERE starts_with(session_id, $prefix) "
        "ORDER BY session_id <> $prefix, session_id LIMIT 2",
        {"prefix": prefix},
    )
    ids = [str(session_id) for (session_id,) in rows]
    if not ids:
        raise InputError(f'no session "{prefix}" in {store.path}: `spangrade sessions` lists them')
    if len(ids) > 1 and ids[0] != prefix:
        raise InputError(f'"{prefix}" may be {ids[0]}, {ids[1]} or others: give more of the id')
    return ids[0]


def find_session_to_show(
    store: Store, named: str, on_problem: Callable[[Problem], None], run_id: str | None = None
) -> str:
    """Return the id of the session that an id, a golden question, or the beginning of an id names.

    Of a question that is the newest session, among those that a run graded if there is one; `on_problem` is
    called with the number of older ones. Raises InputError if there is none, or more than one.
    """
    query = statement("session_of_question", "spangrade.evaluator.grading").format(
        sessions=sessions_query("session_id, start_ns, question_id")
    )
    rows = store.query(query, {"question": named, "run": run_id})
    if not rows:
        return find_session_id(store, named)
    ((session_id, number),) = rows
    if number > 1:
        condition = f"origin:any question_id = {text_literal(named)}"
        # In double quotes if it can be: those of a shell around single ones are hard to read.
        word = f'"{condition}"' if set(condition).isdisjoint('"$`\\!') else quote(condition)
        older = f"{counted(number - 1, 'older session')}: spangrade sessions --where {word}"
        message = f"this is its newest session, {session_id}; {older}"
        on_problem(Problem(f"question {named}", message, dropped=False))
    return str(session_id)


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
