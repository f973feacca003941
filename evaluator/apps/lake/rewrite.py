"""Rewriting files of a lake: their rows become other files, sorted by session, and none of them changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import duckdb

from spangrade.evaluator.apps.lake.catalog import NAME, Lake, data_path, lake_tables, state_of
from spangrade.evaluator.apps.lake.commit import add_files
from spangrade.evaluator.apps.lake.tasks import Update, attempt_name, between, lake_sql, task_connection
from spangrade.evaluator.derive.settings import NO_SETTINGS
from spangrade.evaluator.derive.sync.workers import InOrder
from spangrade.tracer.store import Store
from spangrade.tracer.store.object_storage import copy_to, list_literal, make_folder


class RewriteJob(NamedTuple):
    """Files of a table, and which of their rows become a new file in a folder.

    These are the rows of the sessions from `first` on and before `end`; None is no limit, and rows without a
    session come before all others.
    """

    update: Update
    table: str
    by_session: bool
    files: Sequence[str]
    folder: str
    first: str | None = None
    end: str | None = None


def rewrite(job: RewriteJob) -> str:
    """Write the new file of a job and return its URL."""
    condition = f"filename IN {list_literal(job.files)} AND {between(job.first, job.end)}"
    order = "session_id, rowid" if job.by_session else "rowid"
    url = f"{job.folder}/{attempt_name(0)}.parquet"
    with task_connection(job.update) as connection:
        rows = f"SELECT * FROM lake.{job.table} WHERE {condition} ORDER BY {order}"  # noqa: S608 (our own)
        copy_to(connection, rows, url, "ROW_GROUP_SIZE 8192")
    return url


class LakeTable(NamedTuple):
    """A table with its files at a snapshot: how many rows each of them has that are not deleted."""

    update: Update
    name: str
    by_session: bool
    folder: str
    rows: Mapping[str, int]

    def job(self, files: Sequence[str], first: str | None = None, end: str | None = None) -> RewriteJob:
        """Return a job with some of its files."""
        return RewriteJob(self.update, self.name, self.by_session, files, self.folder, first, end)


def tables_of(lake: Lake, store: Store) -> list[LakeTable]:
    """Return the tables of a lake; rows that the catalog holds itself are in files then."""
    store.query(f"CALL ducklake_flush_inlined_data('{NAME}')")
    update = Update(lake, state_of(store).snapshot, "", NO_SETTINGS)
    data = data_path(store)
    by_session = {
        str(name)
        for (name,) in store.query(
            "SELECT schema_name || '.' || table_name FROM duckdb_columns() "
            "WHERE database_name = $lake AND column_name = 'session_id'",
            {"lake": NAME},
        )
    }
    return [
        LakeTable(update, name, name in by_session, f"{data}/{name.rpartition('.')[2]}", _rows(store, name))
        for name in lake_tables(store)
    ]


def _rows(store: Store, table: str, files: Sequence[str] | None = None) -> dict[str, int]:
    where = "" if files is None else f"WHERE filename IN {list_literal(files)} "
    found = store.query(f"SELECT filename, count(*) FROM {table} {where}GROUP BY filename")  # noqa: S608 (our own names)
    return {str(file): int(rows) for file, rows in found if str(file).endswith(".parquet")}


def boundaries(store: Store, table: LakeTable, files: Sequence[str], pieces: int) -> list[str]:
    """Return the sessions with which the second and each later one of about equal pieces begins."""
    query = lake_sql("boundaries").format(table=table.name, files=list_literal(files), pieces=pieces)
    return [str(session_id) for (session_id,) in store.query(query)[1:]]


def rewrite_files(store: Store, table: LakeTable, jobs: Iterable[RewriteJob], in_order: InOrder) -> bool:
    """Put new files in place of those of jobs; return whether they were as they had been found.

    If they were not, nothing is changed.
    """
    todo = list(jobs)
    make_folder(table.folder)
    new = list(in_order(rewrite, todo))
    old = sorted({file for job in todo for file in job.files})
    try:
        with store.transaction():
            if _rows(store, table.name, old) != {file: table.rows[file] for file in old}:
                raise _ChangedError
            store.query(f"DELETE FROM {table.name} WHERE filename IN {list_literal(old)}")  # noqa: S608 (our own)
            for url in new:
                add_files(store, {table.name: url})
    except _ChangedError:
        return False
    except duckdb.TransactionException as error:
        if "conflict" not in str(error):
            raise
        return False
    return True


class _ChangedError(Exception):
    pass


def drop_empty_files(store: Store) -> None:
    """Let the catalog forget the files of which all rows are deleted."""
    store.query(f"CALL ducklake_flush_inlined_data('{NAME}')")  # deletions of few rows
    store.query(f"CALL ducklake_rewrite_data_files('{NAME}', delete_threshold => 1.0)")
