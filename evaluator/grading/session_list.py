"""The stored sessions: their list in an order, their number, and an id by its beginning."""

from __future__ import annotations

from collections.abc import Callable, Collection
from shlex import quote

from spangrade.evaluator.derive.schema import SESSIONS
from spangrade.evaluator.grading.stored_grades import FAILED
from spangrade.evaluator.grading.verdict import PRECEDENCE, Verdict
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
