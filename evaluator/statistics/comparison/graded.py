"""The sessions of a run, or of a condition, with their grades and steps, and where these differ first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spangrade.evaluator.results.views import with_views
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

THE_END = "the end"


class Graded(NamedTuple):
    """A session in a run, with the names of its trajectory, None if they are not recorded."""

    session_id: str
    question_id: str | None
    verdict: str
    reason: str
    trajectory: tuple[str, ...] | None = None

    @property
    def key(self) -> str:
        """What it is compared by: its question, else itself."""
        return self.session_id if self.question_id is None else self.question_id


def sessions_of_run(store: Store, run_id: str) -> tuple[Graded, ...]:
    """Return the sessions of a run with their grades, and their paths."""
    return graded_sessions(store, query_of("sessions_of_run"), {"run_id": run_id})


def shown_sessions(
    store: Store, condition: str, parameters: Mapping[str, Any] | None = None
) -> tuple[Graded, ...]:
    """Return the sessions that a condition over `derived.sessions` chooses, by the grade that they show."""
    chosen = with_views(
        "SELECT * FROM {grades} SEMI JOIN (SELECT session_id FROM derived.sessions WHERE $condition) "
        "USING (session_id) WHERE shown"
    ).replace("$condition", condition)
    return graded_sessions(store, chosen, dict(parameters or {}))


def graded_sessions(store: Store, chosen: str, parameters: dict[str, Any]) -> tuple[Graded, ...]:
    """Return the sessions that a query chooses with their grades, and their paths."""
    query = query_of("graded_sessions").format(chosen=chosen)
    return tuple(
        Graded(session_id, question_id, verdict, reason, None if names is None else tuple(names))
        for session_id, question_id, verdict, reason, names in store.query(query, parameters)
    )


def query_of(name: str) -> str:
    """Return a query of this folder, with the views of results in it."""
    return with_views(statement(name, "spangrade.evaluator.statistics.comparison"))


class FirstDifference(NamedTuple):
    """The first step, from 1, at which not all paths are the same, and what each of them has there."""

    step: int
    names: tuple[str, ...]


def where_paths_differ(paths: Sequence[Sequence[str]]) -> FirstDifference | None:
    """Return where paths differ first, None if they do not. A path that is over has `the end` there."""
    for step in range(max(map(len, paths), default=0)):
        names = tuple(path[step] if step < len(path) else THE_END for path in paths)
        if len(set(names)) > 1:
            return FirstDifference(step + 1, names)
    return None
