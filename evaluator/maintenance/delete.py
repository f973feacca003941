"""Deleting sessions, with their spans, logs, derived rows and scores, and runs with theirs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from spangrade.converters.spans.session_attributes import USERS
from spangrade.evaluator.derive import update
from spangrade.evaluator.derive.settings import NOT_CONFIGURED, Configured
from spangrade.evaluator.derive.sync.update import bring_up_to_date
from spangrade.tracer.base.errors import InputError, StoreLockedError
from spangrade.tracer.base.quantities import parsed_time
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column
from spangrade.tracer.store.compact import mark_pending, shrink
from spangrade.tracer.store.spool import drain, rejected_files, spool_files
from spangrade.tracer.store.sql import statement

SPANS_TO_DELETE = "trace_id IN (FROM traces_to_delete)"
# A log without a trace and a session is deleted by its own time.
LOGS_TO_DELETE = """trace_id IN (FROM traces_to_delete) OR trace_id IS NULL AND (
    (attributes->>'$."gen_ai.conversation.id"') IN (FROM to_delete)
    OR (attributes->>'$."gen_ai.conversation.id"') IS NULL AND time_ns < $before AND seq < $first_kept)"""

RUN_TABLES = ("scores", "verdicts", "run_metrics", "run_questions", "runs")

NO_LIMIT = 2**63 - 1
_GROWING = (".open", ".part")  # segments of the spool that another process still writes
_SEAL_WAIT_S = 20.0  # a receiver seals its segment every second

_log = logging.getLogger("spangrade")


class Deleted(NamedTuple):
    """How much was deleted, and by how many bytes the file became smaller. `runs` are those of a grade.

    `rejected_files` are files of the spool that could not be loaded; whose spans they hold is unknown.
    """

    sessions: int
    spans: int
    logs: int
    bytes_saved: int
    rejected_files: int = 0
    runs: int = 0


def delete(
    db: Path,
    *,
    sessions: Sequence[str] = (),
    before_ns: int | None = None,
    by_arrival: bool = False,
    user: str | None = None,
    runs_before_ns: int | None = None,
    dry_run: bool = False,
    wait_s: float = 0.0,
    configured: Configured = NOT_CONFIGURED,
    on_start: Callable[[Deleted], None] = lambda counted: None,  # noqa: ARG005
) -> Deleted:
    """Delete the sessions of some ids, those that ended before a time, and those of a user; shrink the file.

    Runs that were graded before `runs_before_ns` are deleted, with their scores, verdicts and questions,
    unless one has the latest verdict of a session that stays.

    A session is deleted whole or not at all, with the spans that a receiver has acknowledged but not stored
    yet; a span that arrives later is new. Files of the spool that could not be loaded are deleted too; with
    `before_ns` only older files. With `dry_run` nothing is deleted, only counted. With `by_arrival`, sessions
    that ended before `before_ns` stay if a part of them arrived after it (to the hour), such as an import of
    old recordings. If the process is killed, the next process that opens the database for writing finishes
    the work. `on_start` is called with the counts before anything is deleted: then the whole file is written
    again, once, which may take a while.

    Raises InputError for a session that does not exist, StoreLockedError if another process has the database
    or its spool open for longer than `wait_s`, StoreError if the file cannot be replaced by a smaller one.
    """
    if not db.exists():
        raise InputError(f"{db}: no such database")
    size = db.stat().st_size
    deleted_before: frozenset[str] = frozenset()

    @contextmanager
    def opened() -> Iterator[Store]:
        nonlocal deleted_before
        with Store.open(db, wait_s=wait_s) as store:
            deleted_before |= store.deleted_before
            yield store

    with opened():  # a file that is refused is refused once, and not as one that cannot be derived
        pass
    derived = _derive(db, lambda: bring_up_to_date(opened, configured))
    if sessions or user is not None:
        _wait_for_spool(db)
    with opened() as store:
        drain(store)
        if derived:
            _derive(db, lambda: update(store))
        before = {"before": before_ns or 0, "first_kept": NO_LIMIT}
        if by_arrival and before_ns is not None:
            before["first_kept"] = store.first_arrival_after(before_ns)
        select_sessions(store, sessions, before if before_ns is not None else None, user, deleted_before)
        rejected = _rejected(store.path, None if sessions or user is not None else before_ns)
        deleted = Deleted(
            sessions=count_rows(store, "derived.sessions WHERE session_id IN (FROM to_delete)"),
            spans=count_rows(store, f"spans WHERE {SPANS_TO_DELETE}"),
            logs=count_rows(store, f"logs WHERE {LOGS_TO_DELETE}", before),
            bytes_saved=0,
            rejected_files=len(rejected),
            runs=select_runs(store, runs_before_ns),
        )
        if dry_run:
            return deleted
        for file in rejected:
            file.unlink(missing_ok=True)
        if not (deleted.sessions or deleted.spans or deleted.logs or deleted.runs):
            return deleted
        on_start(deleted)
        with store.transaction():
            store.query(f"DELETE FROM spans WHERE {SPANS_TO_DELETE}")  # noqa: S608 (our own text)
            store.query(f"DELETE FROM logs WHERE {LOGS_TO_DELETE}", before)  # noqa: S608 (our own text)
            store.query("DELETE FROM last_import WHERE trace_id IN (FROM traces_to_delete)")
            for table in session_tables(store):
                store.query(f"DELETE FROM {table} WHERE session_id IN (FROM to_delete)")  # noqa: S608 (our own names)
            for table in RUN_TABLES:
                store.query(f"DELETE FROM {table} WHERE run_id IN (FROM runs_to_delete)")  # noqa: S608 (our own names)
            store.query("DELETE FROM golden_questions WHERE digest NOT IN (SELECT digest FROM run_questions)")
            mark_pending(store.connection, "to_delete")
        shrink(store.connection, store.path)
        return deleted._replace(bytes_saved=size - db.stat().st_size)


def _wait_for_spool(db: Path) -> None:
    """Wait until what was acknowledged before now can be loaded from the spool.

    Raises StoreLockedError if a receiver does not seal it in time.
    """
    growing = spool_files(db, *_GROWING)
    give_up_s = time.monotonic() + _SEAL_WAIT_S
    while unsealed := [file for file in growing if file.exists()]:
        if time.monotonic() >= give_up_s:
            raise StoreLockedError(f"{unsealed[0]}: another process is writing to it: stop it, or try again")
        time.sleep(0.05)


def _derive(db: Path, derive: Callable[[], object]) -> bool:
    """Derive sessions, as far as it is possible: what cannot be derived can be deleted even so.

    Return whether all could be derived. Raises StoreLockedError.
    """
    try:
        derive()
    except StoreLockedError:
        raise
    except Exception as error:  # noqa: BLE001 (dialects are third-party code)
        _log.warning("%s: sessions cannot be derived: %s: %s", db, type(error).__name__, error)
        return False
    return True


def _rejected(db: Path, before_ns: int | None) -> list[Path]:
    """Return the files of the spool that could not be loaded and were last written before a time."""
    return [file for file in rejected_files(db) if before_ns is None or file.stat().st_mtime_ns < before_ns]


def time_to_delete(
    sessions: object, before: str | datetime | None, user: str | None, runs: object = None
) -> int | None:
    """Return the time before which sessions are deleted, in ns since the epoch; None if it is not given.

    Raises InputError if nothing says which sessions, or `runs`.
    """
    if not sessions and before is None and user is None and runs is None:
        raise InputError(
            "delete which sessions? Expected their ids, a time before which they ended, or a user"
        )
    return parsed_time("before", before)


def select_sessions(
    store: Store,
    sessions: Sequence[str],
    before: dict[str, int] | None,
    user: str | None,
    deleted_before: frozenset[str],
) -> None:
    """Create the temporary tables `to_delete`, of session ids, and `traces_to_delete`."""
    store.query("CREATE TEMP TABLE to_delete (session_id VARCHAR)")
    if sessions:
        named = arrow_column("session_id", dict.fromkeys(sessions))
        derived = "INSERT INTO to_delete FROM named SEMI JOIN derived.sessions USING (session_id)"
        store.query(derived, named=named)
        underived = store.query(statement("underived_traces", "spangrade.evaluator.maintenance"), named=named)
        known = {session_id for row in underived for session_id in row} | deleted_before
        known |= {session_id for (session_id,) in store.query("FROM to_delete")}
        if unknown := [session_id for session_id in sessions if session_id not in known]:
            raise InputError(f"{store.path}: no session {unknown[0]!r}: `spangrade sessions` lists them")
        store.query(
            "INSERT INTO to_delete FROM traces",
            traces=arrow_column("session_id", [session_id for session_id, _ in underived]),
        )
    if before is not None:
        store.query(statement("sessions_before", "spangrade.evaluator.maintenance"), before)
    if user is not None:
        names = [f'$."{name}"' for name in USERS]
        query = statement("sessions_of_user", "spangrade.evaluator.maintenance")
        store.query(query, {"user": user, "names": names})
    store.query("CREATE OR REPLACE TEMP TABLE to_delete AS SELECT DISTINCT session_id FROM to_delete")
    store.query(
        "CREATE TEMP TABLE traces_to_delete AS "
        "SELECT trace_id FROM derived.traces SEMI JOIN to_delete USING (session_id) "
        "UNION SELECT session_id FROM to_delete "
        "ANTI JOIN derived.traces ON to_delete.session_id = traces.trace_id"
    )


def select_runs(store: Store, before_ns: int | None) -> int:
    """Create the temporary table `runs_to_delete`, and return how many runs are in it.

    A run with the verdict that is shown of a session stays whole: without it the session would not be
    graded. The sessions in `to_delete` do not count.
    """
    store.query("CREATE TEMP TABLE runs_to_delete (run_id VARCHAR)")
    if before_ns is not None:
        store.query(statement("runs_before", "spangrade.evaluator.maintenance"), {"before": before_ns})
    return count_rows(store, "runs_to_delete")


def count_rows(store: Store, what: str, parameters: dict[str, int] | None = None) -> int:
    """Return the number of rows of a table, with a condition if need be."""
    return int(store.query(f"SELECT count(*) FROM {what}", parameters)[0][0])  # noqa: S608 (our own text)


def session_tables(store: Store) -> list[str]:
    """Return the tables with a column of session ids: the derived ones and the scores."""
    return [
        f'"{schema}"."{table}"'
        for schema, table in store.query(
            "SELECT schema_name, table_name FROM duckdb_columns() SEMI JOIN duckdb_tables() "
            "USING (database_name, schema_name, table_name) "
            "WHERE column_name = 'session_id' AND database_name = 'store'"
        )
    ]
