"""Upkeep of a lake: small files become larger ones, and files that nobody reads are removed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from spangrade.evaluator.apps.lake.catalog import NAME, Lake, attached, data_path
from spangrade.evaluator.apps.lake.rewrite import (
    LakeTable,
    boundaries,
    drop_empty_files,
    rewrite_files,
    tables_of,
)
from spangrade.evaluator.derive.sync.workers import InOrder
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.object_storage import remove_empty_folders, remove_files, stored_files

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
