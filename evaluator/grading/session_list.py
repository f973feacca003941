"""The stored sessions: their list in an order, their number, and an id by its beginning."""

from __future__ import annotations

from spangrade.evaluator.derive.schema import SESSIONS
from spangrade.evaluator.grading.policy import PRECEDENCE, Verdict
from spangrade.evaluator.grading.session_sort import SessionSort
from spangrade.evaluator.grading.stored_grades import LATEST_VERDICTS
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.query_rows import Rows
from spangrade.tracer.store.sql import statement

GRAVEST_FIRST = (*PRECEDENCE, Verdict.UNMATCHED, Verdict.PASSED)
_ORDER_BY = {
    SessionSort.START: "started_at",
    SessionSort.NEWEST: "started_at DESC NULLS LAST",
    SessionSort.LATENCY: "total_s DESC NULLS LAST",
    SessionSort.COST: "cost_usd DESC NULLS LAST",
    SessionSort.TOKENS: "input_tokens + output_tokens DESC NULLS LAST",
    SessionSort.ERRORS: "errors DESC NULLS LAST",
    SessionSort.VERDICT: f"list_position({[*map(str, GRAVEST_FIRST)]}, verdict) NULLS LAST",
}


def list_sessions(
    store: Store,
    *,
    failed: bool = False,
    sort: str = SessionSort.START,
    limit: int | None = None,
    simulated: bool = False,
) -> Rows:
    """Return a row per session: the columns of the view `sessions`, and the `verdict` of the latest run.

    A session that records no question has the one by which that run graded it. The verdict is unknown for a
    session that was not graded. With `failed` the sessions are those that missed
    a gate in that run. Those whose user is simulated are left out unless `simulated`.

    Raises InputError for a `sort` that is not in `SessionSort`, or a `limit` below 1.
    """
    if sort not in set(SessionSort):
        raise InputError(f"cannot sort by {sort!r}: expected one of {', '.join(SessionSort)}")
    if limit is not None and limit < 1:
        raise InputError(f"the limit is {limit}: expected at least 1")
    chosen = (
        statement("failed_sessions", "spangrade.evaluator.grading") if failed else "SELECT listed.session_id"
    )
    query = (
        f"WITH listed AS ({SESSIONS.select}), latest AS ({LATEST_VERDICTS}) "  # noqa: S608 (our own text)
        "SELECT listed.* REPLACE (coalesce(listed.question_id, latest.question_id) AS question_id), "
        "latest.verdict FROM listed LEFT JOIN latest USING (session_id) "
        f"WHERE session_id IN ({chosen}) AND (NOT listed.simulated OR {simulated}) "
        f"ORDER BY {_ORDER_BY[SessionSort(sort)]}, session_id"
    )
    return Rows.of(store.connection.sql(query if limit is None else f"{query} LIMIT {limit:d}"))


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
