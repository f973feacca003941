"""Which stored sessions are graded without a dataset: by time, agent, model, an SQL condition, a sample."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import duckdb

from spangrade.evaluator.derive.schema import SESSIONS
from spangrade.evaluator.grading.stored_grades import LATEST_VERDICTS
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.query import select
from spangrade.tracer.store.sql import statement, text_literal


class StoredSelection(NamedTuple):
    """The sessions that started from `since_ns` on and before `until_ns`, and meet all that is given.

    A session whose start is unknown is chosen whatever the times. `where` is a condition in SQL over the view
    `sessions`, with the latest `verdict` and a map `scores` of external scores by name, such as
    `scores['thumbs'] < 1`. Of what is chosen by these, a `share` is taken by the sessions' ids, and of this
    the `limit` newest.
    """

    session_ids: tuple[str, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None
    agent: str | None = None
    model: str | None = None
    where: str | None = None
    share: float | None = None
    limit: int | None = None


def select_sessions(store: Store, selection: StoredSelection, label: str = "--where") -> set[str]:
    """Return the ids of the selected sessions. The store must be open with `confined`.

    `label` says in errors where the condition is from.

    Raises InputError for a condition that is not one expression or that DuckDB refuses, and for a session id
    that is not stored.
    """
    if selection.where is not None:
        _check_expression(selection.where, label)
    rows = select(store, _query(selection), where=label).rows()
    chosen = {row["session_id"] for row in rows}
    if selection.session_ids:
        if unknown := [one for one in selection.session_ids if one not in chosen]:
            raise InputError(
                f"{store.path}: no session {unknown[0]!r} to grade: `spangrade sessions` lists them"
            )
        chosen.intersection_update(selection.session_ids)
    newest_first = [row["session_id"] for row in rows if row["session_id"] in chosen]
    if selection.share is not None:
        newest_first = [one for one in newest_first if is_sampled(one, selection.share)]
    return set(newest_first[: selection.limit])


def is_sampled(session_id: str, share: float) -> bool:
    """Return whether a session is in a sample: the same ones each time, and more of them in a larger one."""
    digest = blake2b(session_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def _query(selection: StoredSelection) -> str:
    conditions = [
        f"(started_at IS NULL OR started_at {sign} make_timestamp({time_ns // 1000}))"
        for sign, time_ns in ((">=", selection.since_ns), ("<", selection.until_ns))
        if time_ns is not None
    ]
    conditions += [
        f"list_contains({column}, {text_literal(name)})"
        for column, name in (("agents", selection.agent), ("models", selection.model))
        if name is not None
    ]
    if selection.where is not None:
        conditions.append(f"(\n{selection.where}\n)")  # on lines of its own: it may end with a comment
    sessions = statement("sessions_to_select", "spangrade.evaluator.grading").format(
        sessions=SESSIONS.select, verdicts=LATEST_VERDICTS
    )
    chosen = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT session_id FROM (\n{sessions}\n){chosen} ORDER BY started_at DESC NULLS LAST, session_id"  # noqa: S608 (one expression, in a confined database)


def _check_expression(text: str, label: str) -> None:
    """Raise InputError unless a text is one SQL expression, which cannot close the brackets around it."""
    try:
        duckdb.SQLExpression(text)
    except duckdb.Error as error:
        raise InputError(f"{label}: {str(error).splitlines()[0]}") from None
