"""Upkeep of a lake: small files become larger ones, and files that nobody reads are removed.

Rewritten rows become other files, sorted by session; no file is changed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import duckdb

from spangrade.evaluator.apps.lake.catalog import NAME, Lake, attached, data_path, lake_tables, state_of
from spangrade.evaluator.apps.lake.commit import add_files
from spangrade.evaluator.apps.lake.tasks import Update, attempt_name, between, lake_sql, task_connection
from spangrade.evaluator.derive.settings import NO_SETTINGS
from spangrade.evaluator.derive.sync.workers import InOrder
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.object_storage import (
    copy_to,
    list_literal,
    make_folder,
    remove_empty_folders,
    remove_files,
    stored_files,
)

_DAY_S = 86_400
ROWS = 262_144  # of a merged file
# The names of a lake's files in its folder: a catalog that somebody changed names others, too.
_OWN = re.compile(
    r"stage/(?!\.\.?/)[\w.-]+/(\w+/)?(slice=\d+/)?[\w-]+\.parquet|\w+/\d{6,}-[\w-]+\.parquet|"
    r"(main|derived)/\w+/ducklake-[0-9a-f-]{36}(-delete)?\.(parquet|puffin)"
)


class Compacted(NamedTuple):
    """The files of the tables before and after; those that were removed from storage, with their bytes.

    `skipped` are tables that another process changed in the meantime.
    """

    files_before: int
    files_after: int
    removed: int
    bytes_removed: int
    skipped: tuple[str, ...]


def compact(
    lake: Lake, in_order: InOrder, *, keep_s: float = 7 * _DAY_S, orphans_s: float = _DAY_S, rows: int = ROWS
) -> Compacted:
    """Merge files with less than half of `rows` rows, expire snapshots, remove files that none refers to.

    No row changes, and updates can run meanwhile. What is merged at once is sorted by session, in files with
    disjoint ranges of sessions. Snapshots older than `keep_s` seconds are expired: who still reads one fails.
    Files that an update left behind are removed if they are older than `orphans_s` seconds.
    """
    with attached(lake, read_only=False) as store:
        data = data_path(store)
        before, stored = _files(store), stored_files(data)
        skipped = [table.name for table in tables_of(lake, store) if not _merge(store, table, in_order, rows)]
        drop_empty_files(store)
        remove_old(store, keep_s)
        remove_orphans(store, f"now() - INTERVAL '{orphans_s} seconds'")
        after, left = _files(store), stored_files(data)
    remove_empty_folders(f"{data}/stage")
    gone = [file for file in stored if file not in left]
    return Compacted(before, after, len(gone), sum(stored[file].size for file in gone), tuple(skipped))


def _merge(store: Store, table: LakeTable, in_order: InOrder, rows: int) -> bool:
    """Merge the small files of a table; return whether they were as they had been found."""
    small = {file: size for file, size in sorted(table.rows.items()) if size < rows / 2}
    if len(small) < 2:
        return True
    files = list(small)
    pieces = math.ceil(sum(small.values()) / rows) if table.by_session else 1
    begins = [None, *boundaries(store, table, files, pieces)] if pieces > 1 else [None]
    jobs = [table.job(files, first, end) for first, end in zip(begins, [*begins[1:], None], strict=True)]
    return rewrite_files(store, table, jobs, in_order)


def remove_old(store: Store, keep_s: float) -> None:
    """Expire the snapshots older than that number of seconds, and remove the files that only they had."""
    age = f"now() - INTERVAL '{keep_s} seconds'"
    # Not their times: Python needs another package for times with a zone.
    store.query(f"SELECT snapshot_id FROM ducklake_expire_snapshots('{NAME}', older_than => {age})")  # noqa: S608 (our own text)
    old = f"ducklake_cleanup_old_files('{NAME}', cleanup_all => true"
    if others := _not_own(store, [str(file) for (file,) in store.query(f"FROM {old}, dry_run => true)")]):
        raise StoreError(
            f"{store.path}: its catalog names {others[0]!r} for removal, which is not a file of this lake: "
            "nothing was removed"
        )
    store.query(f"CALL {old})")


def remove_orphans(store: Store, before: str) -> None:
    """Remove the lake's files to which no snapshot refers and that were written before a time (in SQL).

    Other files in the lake's folder are left alone.
    """
    orphans = f"ducklake_delete_orphaned_files('{NAME}', older_than => {before}, dry_run => true)"
    files = [str(file) for (file,) in store.query(f"FROM {orphans}")]
    others = set(_not_own(store, files))
    remove_files([file for file in files if file not in others])


def _not_own(store: Store, files: Sequence[str]) -> list[str]:
    """Return the files whose names a file of this lake cannot have."""
    folder = f"{data_path(store)}/"
    return [one for one in files if not (one.startswith(folder) and _OWN.fullmatch(one, len(folder)))]


def _files(store: Store) -> int:
    ((files,),) = store.query(
        "SELECT coalesce(sum(file_count), 0)::BIGINT FROM ducklake_table_info($lake)", {"lake": NAME}
    )
    return int(files)


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
