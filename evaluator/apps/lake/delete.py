"""Deleting sessions from a lake for good: the rows, the files that held them, and landing files.

The commit that deletes the rows names the sessions in `unfinished_deletion`, which is empty again when no
file has them any more. To repeat an interrupted deletion finishes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from spangrade.evaluator.apps.lake.catalog import NAME, Lake, attached, check_landing, data_path, state_of
from spangrade.evaluator.apps.lake.commit import advance, commit
from spangrade.evaluator.apps.lake.compact import (
    LakeTable,
    drop_empty_files,
    remove_old,
    remove_orphans,
    rewrite_files,
    tables_of,
)
from spangrade.evaluator.apps.lake.job import new_stage, remove_stage
from spangrade.evaluator.apps.lake.tasks import lake_sql
from spangrade.evaluator.derive.sync.workers import InOrder
from spangrade.evaluator.maintenance.delete import (
    LOGS_TO_DELETE,
    NO_LIMIT,
    SPANS_TO_DELETE,
    count_rows,
    select_sessions,
    session_tables,
)
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.store import Store
from spangrade.tracer.store.object_storage import (
    SPANS,
    copy_to,
    files_in,
    list_literal,
    make_folder,
    remove_files,
    storage_connection,
    stored_files,
    write_whole,
)
from spangrade.tracer.store.sql import text_literal

_ATTEMPTS = 3
_PENDING = "unfinished_deletion"
_METADATA = f"__ducklake_metadata_{NAME}"
_GREATEST = "\U0010ffff"


class DeletedFromLake(NamedTuple):
    """How much was deleted; `landing_files` are those that were written again without it, or removed.

    Those that are `unread` may hold more of it: that is new when it is read.
    """

    sessions: int
    spans: int
    logs: int
    landing_files: int = 0
    unread: int = 0
    bytes_removed: int = 0


class EraseJob(NamedTuple):
    """Landing files from which traces and sessions are to be deleted, which are in two files.

    Logs that name neither are deleted if they are older than `before_ns`.
    """

    files: Sequence[str]
    traces: str
    sessions: str
    before_ns: int


def erase(job: EraseJob) -> int:
    """Write landing files again without what is to be deleted; return how many had some of it."""
    changed = 0
    with storage_connection(threads=1) as connection:
        for url in job.files:
            kept = lake_sql("kept_spans" if url.endswith(SPANS) else "kept_logs").format(
                file=text_literal(url),
                traces=text_literal(job.traces),
                sessions=text_literal(job.sessions),
                before=job.before_ns,
            )
            connection.execute(f"CREATE OR REPLACE TEMP TABLE kept AS {kept}")
            ((rest,),) = connection.execute("SELECT count(*) FROM kept").fetchall()
            ((rows,),) = connection.execute(
                f"SELECT num_rows FROM parquet_file_metadata({text_literal(url)})"  # noqa: S608 (our own text)
            ).fetchall()
            if rest == rows:
                continue
            changed += 1
            if rest:
                write_whole(connection, "FROM kept", url)
            else:
                remove_files([url])
        connection.execute("DROP TABLE IF EXISTS kept")
    return changed


def delete_from_lake(
    lake: Lake,
    in_order: InOrder,
    landing: str | None = None,
    *,
    sessions: Sequence[str] = (),
    before_ns: int | None = None,
    by_arrival: bool = False,
    user: str | None = None,
    dry_run: bool = False,
) -> DeletedFromLake:
    """Delete sessions as `delete` does from a file, and all files that held them, landing files too.

    Landing files that no update has read are new, like later ones. All snapshots but the last one expire,
    and an update that runs meanwhile is refused at its commit. Raises InputError for a session that does not
    exist or if landing files were read and `landing` is not given, StoreError if the lake was changed.
    """
    with attached(lake, read_only=False) as store:
        state, data = state_of(store), data_path(store)
        landed, unread = _landed(store, landing, data)
        pending = frozenset(str(name) for (name,) in store.query(f"FROM {_PENDING}"))
        before = {"before": before_ns or 0, "first_kept": NO_LIMIT}
        if by_arrival and before_ns is not None:
            before["first_kept"] = store.first_arrival_after(before_ns)
        select_sessions(store, sessions, before if before_ns is not None else None, user, pending)
        deleted = DeletedFromLake(
            count_rows(store, "derived.sessions WHERE session_id IN (FROM to_delete)"),
            count_rows(store, f"spans WHERE {SPANS_TO_DELETE}"),
            count_rows(store, f"logs WHERE {LOGS_TO_DELETE}", before),
        )
        if dry_run or not (any(deleted) or pending):
            return deleted._replace(unread=unread)
        stage = new_stage(data)
        jobs = _erase_jobs(store, stage, landed, before)
        changed = sum(in_order(erase, jobs))
        stored = stored_files(data)

        def change() -> None:
            store.query(f"DELETE FROM spans WHERE {SPANS_TO_DELETE}")  # noqa: S608 (our own text)
            store.query(f"DELETE FROM logs WHERE {LOGS_TO_DELETE}", before)  # noqa: S608 (our own text)
            for table in session_tables(store):
                store.query(f"DELETE FROM {table} WHERE session_id IN (FROM to_delete)")  # noqa: S608 (our own names)
            store.query(f"INSERT INTO {_PENDING} FROM to_delete")
            advance(store, state, 1)

        commit(lake, store, state, change)
    finish_deletion(lake, in_order, stage)
    left = stored_files(data)
    removed = sum(stored[file].size for file in stored if file not in left)
    return deleted._replace(landing_files=changed, unread=unread, bytes_removed=removed)


def _landed(store: Store, landing: str | None, data: str) -> tuple[dict[str, int], int]:
    """Return the landing files that were read, each with the batch of its update, and how many were not."""
    read = dict(store.query("SELECT file, batch FROM landed"))
    if landing is None:
        if read:
            raise FieldError("landing", "expected the folder whose files the lake has read: they have it too")
        return {}, 0
    check_landing(landing, data)
    files = files_in(store.connection, landing)
    found = {file: int(read[file]) for file in files if file in read}
    return found, len(files) - len(found)


def _erase_jobs(
    store: Store, stage: str, landed: Mapping[str, int], before: Mapping[str, int]
) -> Iterator[EraseJob]:
    """Yield a job for each landing file; write what is to be deleted to files for them."""
    traces, sessions = f"{stage}/traces.parquet", f"{stage}/sessions.parquet"
    make_folder(stage)
    copy_to(store.connection, "FROM traces_to_delete", traces)
    copy_to(store.connection, "FROM to_delete", sessions)
    for file, batch in sorted(landed.items()):
        yield EraseJob([file], traces, sessions, before["before"] if batch < before["first_kept"] else 0)


def finish_deletion(lake: Lake, in_order: InOrder, stage: str) -> None:
    """Remove all files that hold deleted rows. Raises StoreError if updates do not let it.

    `stage` is a folder for a file that tells the storage's time: files that no snapshot refers to and that
    are older were written by updates that are refused.
    """
    marker = f"{stage}/marker.parquet"
    make_folder(stage)
    with storage_connection(threads=1) as connection:
        copy_to(connection, "SELECT 1", marker)
    written_ns = stored_files(stage)[marker].modified_ns
    with attached(lake, read_only=False) as store:
        for _ in range(_ATTEMPTS):
            remove_old(store, 0)  # first: rows that no snapshot has are not written to files then
            if False not in {_rewrite(store, table, in_order) for table in tables_of(lake, store)}:
                break
        else:
            raise StoreError(
                f"{lake}: the rows are deleted, but files still have them: run the command again"
            )
        drop_empty_files(store)
        remove_old(store, 0)
        remove_orphans(store, f"to_timestamp({written_ns / 1e9})")
        _forget_values(store)
        store.query(f"DELETE FROM {_PENDING}")  # noqa: S608 (our own name)
        drop_empty_files(store)
        remove_old(store, 0)
    remove_stage(stage)


def _rewrite(store: Store, table: LakeTable, in_order: InOrder) -> bool:
    """Rewrite each file of a table that has deleted rows; return whether they were as they had been found."""
    if not table.rows:
        return True
    files = list_literal(table.rows)
    found = store.query(f"SELECT file_name, num_rows FROM parquet_file_metadata({files}) ORDER BY ALL")  # noqa: S608 (a list of texts)
    jobs = [table.job([str(file)]) for file, rows in found if rows > table.rows[str(file)]]
    return not jobs or rewrite_files(store, table, jobs, in_order)


def _forget_values(store: Store) -> None:
    """Widen the catalog's ranges of texts: of a whole table it keeps the least and the greatest ever."""
    store.query(lake_sql("forget_values").format(metadata=_METADATA), {"greatest": _GREATEST})
