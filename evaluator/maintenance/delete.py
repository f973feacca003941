"""Deleting sessions: their spans, their logs, what was derived from them and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from spangrade.evaluator.derive import update
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.compact import shrink
from spangrade.tracer.store.spool import drain
from spangrade.tracer.store.sql import statement

_SPANS = "trace_id IN (FROM doomed_traces)"
# A log of no trace and no session goes by its own time.
_LOGS = """trace_id IN (FROM doomed_traces) OR trace_id IS NULL AND (
    attributes->>'$."gen_ai.conversation.id"' IN (FROM doomed)
    OR attributes->>'$."gen_ai.conversation.id"' IS NULL AND time_ns < $before)"""


class Deleted(NamedTuple):
    """What was deleted, and how many bytes the file became smaller."""

    sessions: int
    spans: int
    logs: int
    bytes_saved: int


def delete(
    db: Path,
    *,
    sessions: Sequence[str] = (),
    before_ns: int | None = None,
    user: str | None = None,
    dry_run: bool = False,
    wait_s: float = 0.0,
) -> Deleted:
    """Delete the sessions that are named, or ended before a time, or name a user; and shrink the file.

    A session goes whole or not at all. A span that arrives for it afterwards is new. With `dry_run` nothing
    is deleted, only counted. Raises InputError for a session that is not there, StoreLockedError if another
    process has the database for longer than `wait_s`.
    """
    if not db.exists():
        raise InputError(f"{db}: no such database")
    with Store.open(db, wait_s=wait_s) as store:
        drain(store)
        update(store)
        _doom(store, sessions, before_ns, user)
        before = {"before": before_ns or 0}
        found = Deleted(
            sessions=_count(store, "derived.sessions WHERE session_id IN (FROM doomed)"),
            spans=_count(store, f"spans WHERE {_SPANS}"),
            logs=_count(store, f"logs WHERE {_LOGS}", before),
            bytes_saved=0,
        )
        if dry_run or not (found.sessions or found.spans or found.logs):
            return found
        with store.transaction():
            store.query(f"DELETE FROM spans WHERE {_SPANS}")  # noqa: S608 (our own text)
            store.query(f"DELETE FROM logs WHERE {_LOGS}", before)  # noqa: S608
            for table in _about_sessions(store):
                store.query(f"DELETE FROM {table} WHERE session_id IN (FROM doomed)")  # noqa: S608
        return found._replace(bytes_saved=shrink(store))


def _doom(store: Store, sessions: Sequence[str], before_ns: int | None, user: str | None) -> None:
    """Make the temporary tables `doomed`, of session ids, and `doomed_traces`."""
    store.query("CREATE TEMP TABLE doomed (session_id VARCHAR)")
    if sessions:
        named = arrow_column("session_id", dict.fromkeys(sessions))
        unknown = store.query(
            "SELECT session_id FROM named ANTI JOIN derived.sessions USING (session_id)", named=named
        )
        if unknown:
            raise InputError(f"{store.path}: no session {unknown[0][0]!r}: `spangrade sessions` lists them")
        store.query("INSERT INTO doomed FROM named", named=named)
    if before_ns is not None:
        store.query(statement("sessions_before", "spangrade.evaluator.maintenance"), {"before": before_ns})
    if user is not None:
        store.query(statement("sessions_of_user", "spangrade.evaluator.maintenance"), {"user": user})
    store.query("CREATE OR REPLACE TEMP TABLE doomed AS SELECT DISTINCT session_id FROM doomed")
    store.query(
        "CREATE TEMP TABLE doomed_traces AS "
        "SELECT trace_id FROM derived.traces SEMI JOIN doomed USING (session_id) "
        "UNION SELECT session_id FROM doomed ANTI JOIN derived.traces ON doomed.session_id = traces.trace_id"
    )


def _count(store: Store, what: str, parameters: dict[str, int] | None = None) -> int:
    return int(store.query(f"SELECT count(*) FROM {what}", parameters)[0][0])  # noqa: S608 (our own text)


def _about_sessions(store: Store) -> list[str]:
    """Return the tables that name sessions: those that are derived, and the scores."""
    return [
        f'"{schema}"."{table}"'
        for schema, table in store.query(
            "SELECT schema_name, table_name FROM duckdb_columns() SEMI JOIN duckdb_tables() "
            "USING (database_name, schema_name, table_name) "
            "WHERE column_name = 'session_id' AND database_name = 'store'"
        )
    ]
