"""What can be asked of sessions and scores, wherever they are kept: in a database file or in a lake."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from spangrade.evaluator.derive import load, not_understood
from spangrade.evaluator.derive.sync.intake import Callbacks
from spangrade.evaluator.derive.sync.up_to_date import up_to_date
from spangrade.evaluator.grading.session_list import SessionSort, find_session_id, list_sessions
from spangrade.evaluator.grading.stored_grades import StoredGrade, latest_grade
from spangrade.evaluator.review.scores.external import ExternalScore, external_scores
from spangrade.evaluator.session import Session
from spangrade.tracer.store import Store
from spangrade.tracer.store.query import MAX_ROWS, TIMEOUT_S, select
from spangrade.tracer.store.query_rows import Rows


class GradedSession(NamedTuple):
    """A session, the verdict and scores of the latest run that graded it (None if none did), and others.

    `external_scores` are those that people, traces and programs gave it.
    """

    session: Session
    grade: StoredGrade | None
    external_scores: tuple[ExternalScore, ...]


class ReadMethods:
    """What can be read of sessions and scores."""

    path: Path
    _callbacks: Callbacks

    def _reading(self, *, confined: bool = False) -> AbstractContextManager[Store]:
        """Give the store, brought up to date; with `confined` for a query of someone else."""
        return up_to_date(self.path, self._callbacks, confined=confined)

    def list_sessions(
        self, *, failed: bool = False, sort: str = SessionSort.START, limit: int | None = None
    ) -> Rows:
        """Return a row per session: the columns of the view `sessions`, and the latest `verdict`.

        `sort` is "start", "newest", "latency", "cost", "tokens", "errors" or "verdict", and `limit` the
        number of sessions. With `failed` only those that missed a gate in the latest run that graded them.
        It is read from the derived table, whatever the database has under the name of the view.
        """
        with self._reading() as store:
            return list_sessions(store, failed=failed, sort=sort, limit=limit)

    def not_understood(self) -> dict[str, int]:
        """Return how many spans look like an agent's and were not understood by any dialect, by scope."""
        with self._reading() as store:
            return not_understood.by_scope(store)

    def latest_grade(self, session_id: str) -> StoredGrade | None:
        """Return the verdict and scores of the latest run that graded a session; None if none did.

        `session_id` may be an unambiguous beginning of an id. Raises InputError if there is no such session.
        """
        with self._reading() as store:
            return latest_grade(store, find_session_id(store, session_id))

    def session(self, session_id: str) -> Session:
        """Return the session of an id, or of an unambiguous beginning of one.

        Raises InputError if there is none, or more than one.
        """
        with self._reading() as store:
            return next(load(store, find_session_id(store, session_id)))

    def graded_session(self, session_id: str) -> GradedSession:
        """Return a session with its latest grade and its scores from elsewhere, read in one window.

        `session_id` may be an unambiguous beginning of an id. Raises InputError if there is no such session.
        """
        with self._reading() as store:
            found = find_session_id(store, session_id)
            given = external_scores(store, found).get(found, ())
            return GradedSession(next(load(store, found)), latest_grade(store, found), tuple(given))

    def sql(
        self,
        query: str,
        *,
        timeout_s: float = TIMEOUT_S,
        max_rows: int = MAX_ROWS,
        on_overrun: Callable[[], None] | None = None,
    ) -> Rows:
        """Return the rows of a query over spans, logs, the derived views and the scores.

        It is one SELECT (also DESCRIBE, SHOW, SUMMARIZE), or EXPLAIN of one, and can neither write nor read a
        file. Raises InputError for anything else, if DuckDB refuses it, and if it takes longer than
        `timeout_s`, more memory than SPANGRADE_MEMORY_LIMIT (1GB), or returns more than `max_rows` or 1 GB.

        DuckDB cannot interrupt a single call of a function over a huge value: `on_overrun` is called from
        another thread if the query still runs 5 s after its time.
        """
        with self._reading(confined=True) as store:
            return select(
                store,
                query,
                timeout_option="--timeout",
                timeout_s=timeout_s,
                max_rows=max_rows,
                on_overrun=on_overrun,
            )

    def external_scores(self, session_id: str | None = None) -> list[ExternalScore]:
        """Return the scores that people, traces and programs gave all sessions, or one, by session and time.

        `session_id` may be an unambiguous beginning of an id. Raises InputError if there is no such session.
        """
        with self._reading() as store:
            chosen = None if session_id is None else find_session_id(store, session_id)
            return [score for scores in external_scores(store, chosen).values() for score in scores]
