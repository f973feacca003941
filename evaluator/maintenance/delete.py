"""Deleting sessions: their spans, their logs, what was derived from them and their scores."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from spangrade.evaluator.derive import update
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.compact import shrink
from spangrade.tracer.store.spool import drain
from spangrade.tracer.store.sql import statement

_SPANS = "trace_id IN (FROM traces_to_delete)"
# A log without a trace and a session is deleted by its own time.
_LOGS = """trace_id IN (FROM traces_to_delete) OR trace_id IS NULL AND (
    attributes->>'$."gen_ai.conversation.id"' IN (FROM to_delete)
    OR attributes->>'$."gen_ai.conversation.id"' IS NULL AND time_ns < $before)"""


_AGE = re.compile(r"(\d{1,6})([mhdw])")
_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Deleted(NamedTuple):
    """How much was deleted, and by how many bytes the file became smaller."""

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
    """Delete the sessions of some ids, those that ended before a time, and those of a user; shrink the file.

    A session is deleted whole or not at all. A span that arrives for it later is new. With `dry_run` nothing
    is deleted, only counted. Raises InputError for a session that does not exist, StoreLockedError if another
    process has the database open for longer than `wait_s`.
    """
    if not db.exists():
        raise InputError(f"{db}: no such database")
    with Store.open(db, wait_s=wait_s) as store:
        drain(store)
        update(store)
        _select(store, sessions, before_ns, user)
        before = {"before": before_ns or 0}
        deleted = Deleted(
            sessions=_count(store, "derived.sessions WHERE session_id IN (FROM to_delete)"),
            spans=_count(store, f"spans WHERE {_SPANS}"),
            logs=_count(store, f"logs WHERE {_LOGS}", before),
            bytes_saved=0,
        )
        if dry_run or not (deleted.sessions or deleted.spans or deleted.logs):
            return deleted
        with store.transaction():
            store.query(f"DELETE FROM spans WHERE {_SPANS}")  # noqa: S608 (our own text)
            store.query(f"DELETE FROM logs WHERE {_LOGS}", before)  # noqa: S608 (our own text)
            for table in _session_tables(store):
                store.query(f"DELETE FROM {table} WHERE session_id IN (FROM to_delete)")  # noqa: S608 (our own names)
        return deleted._replace(bytes_saved=shrink(store))


def parse_time(time_or_age: str | datetime) -> int:
    """Return a time in ns since the epoch. A text is an ISO date or time, or an age such as `30d`.

    Times without a zone are in UTC. Raises InputError for any other text.
    """
    try:
        if isinstance(time_or_age, str) and (age := _AGE.fullmatch(time_or_age)):
            return time.time_ns() - int(age[1]) * _UNITS_S[age[2]] * 10**9
        moment = datetime.fromisoformat(time_or_age) if isinstance(time_or_age, str) else time_or_age
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp()) * 10**9
    except (ValueError, OverflowError):
        raise InputError(
            f"{time_or_age!r} is not a time: write 2026-01-31, 2026-01-31T12:00Z or 30d"
        ) from None


def check_age(text: str) -> str:
    """Return an age such as `30d` or `12h`. Raises InputError for any other text."""
    if not _AGE.fullmatch(text):
        raise InputError(f"{text!r} is not an age: write 30d or 12h")
    return text


def _select(store: Store, sessions: Sequence[str], before_ns: int | None, user: str | None) -> None:
    """Create the temporary tables `to_delete`, of session ids, and `traces_to_delete`."""
    store.query("CREATE TEMP TABLE to_delete (session_id VARCHAR)")
    if sessions:
        named = arrow_column("session_id", dict.fromkeys(sessions))
        unknown = store.query(
            "SELECT session_id FROM named ANTI JOIN derived.sessions USING (session_id)", named=named
        )
        if unknown:
            raise InputError(f"{store.path}: no session {unknown[0][0]!r}: `spangrade sessions` lists them")
        store.query("INSERT INTO to_delete FROM named", named=named)
    if before_ns is not None:
        store.query(statement("sessions_before", "spangrade.evaluator.maintenance"), {"before": before_ns})
    if user is not None:
        store.query(statement("sessions_of_user", "spangrade.evaluator.maintenance"), {"user": user})
    store.query("CREATE OR REPLACE TEMP TABLE to_delete AS SELECT DISTINCT session_id FROM to_delete")
    store.query(
        "CREATE TEMP TABLE traces_to_delete AS "
        "SELECT trace_id FROM derived.traces SEMI JOIN to_delete USING (session_id) "
        "UNION SELECT session_id FROM to_delete "
        "ANTI JOIN derived.traces ON to_delete.session_id = traces.trace_id"
    )


def _count(store: Store, what: str, parameters: dict[str, int] | None = None) -> int:
    return int(store.query(f"SELECT count(*) FROM {what}", parameters)[0][0])  # noqa: S608 (our own text)


def _session_tables(store: Store) -> list[str]:
    """Return the tables with a column of session ids: the derived ones and the scores."""
    return [
        f'"{schema}"."{table}"'
        for schema, table in store.query(
            "SELECT schema_name, table_name FROM duckdb_columns() SEMI JOIN duckdb_tables() "
            "USING (database_name, schema_name, table_name) "
            "WHERE column_name = 'session_id' AND database_name = 'store'"
        )
    ]
