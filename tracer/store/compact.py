"""Free the space of deleted rows. DuckDB keeps it in the file, so the rest is copied to a new one.

The transaction that deletes rows also creates a table that marks the copying as pending; the copy lacks it.
If the process is killed in between, the next one that opens the database for writing finishes the work.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import duckdb

from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.store.sql import statement
from spangrade.tracer.store.untrusted import NEW_FILE, attach, column_types, shrinking_copy

_PENDING = "unfinished_deletion"


def mark_pending(connection: duckdb.DuckDBPyConnection, session_ids: str) -> None:
    """Record in the running transaction that the file is to be shrunk.

    `session_ids` is a table of the sessions that are deleted, so that a repeated deletion knows them.
    """
    connection.execute(f"CREATE TABLE IF NOT EXISTS {_PENDING} (session_id VARCHAR)")
    connection.execute(f"INSERT INTO {_PENDING} FROM {session_ids}")


def pending(connection: duckdb.DuckDBPyConnection) -> frozenset[str] | None:
    """Return the sessions whose deletion has not freed its space yet, None if no deletion is unfinished."""
    if column_types(connection, _PENDING) is None:
        return None
    rows = connection.execute(f"SELECT session_id::VARCHAR FROM {_PENDING}").fetchall()  # noqa: S608 (our own name)
    return frozenset(session_id for (session_id,) in rows)


def shrink(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Replace a database's file by a copy without the space of deleted rows.

    Close the connection afterwards: it still has the old file open. A process that opened the old file at the
    same moment notices and opens the new one. Raises StoreError, with the file as it was, if the copy fails.
    """
    file = Path(os.path.realpath(path))  # a link to it stays
    copy = shrinking_copy(file)
    remove_copy(path)
    try:
        connection.execute("CHECKPOINT store")  # or the write-ahead log would outlive its file
        _check_space(connection, file)
        copy.parent.mkdir(mode=0o700)  # nobody else can read the copy, nor its write-ahead log
        attach(connection, copy, "copy", NEW_FILE)
        connection.execute("COPY FROM DATABASE store TO copy")
        connection.execute(f"DROP TABLE IF EXISTS copy.{_PENDING}")
        connection.execute("DETACH copy")
        _copy_access(file, copy)
        copy.replace(file)
    except (duckdb.Error, OSError) as error:
        raise StoreError(
            f"{path}: the sessions are deleted, but their bytes are still in the file: "
            f"it cannot be copied: {error}; the next command that writes tries again"
        ) from error
    finally:
        with suppress(duckdb.Error):  # it is detached, unless copying failed
            connection.execute("DETACH copy")
        remove_copy(path)


def remove_copy(path: Path) -> None:
    """Remove the copy that an interrupted `shrink` left beside a database, which is open for writing."""
    folder = shrinking_copy(Path(os.path.realpath(path))).parent
    if folder.is_dir():
        shutil.rmtree(folder)


def spilled(path: Path) -> dict[Path, int]:
    """Return the files to which queries spilled their data, and when each last changed, in ns."""
    files = {}
    for file in Path(f"{os.path.realpath(path)}.tmp").glob("*"):
        with suppress(FileNotFoundError):  # another process has ended
            files[file] = file.stat().st_mtime_ns
    return files


def remove_spilled(path: Path, before: dict[Path, int]) -> None:
    """Remove the spilled files of a dead process: those of `before` that have not changed since.

    The database must be open for writing.
    """
    for file, _ in spilled(path).items() & before.items():
        with suppress(OSError):
            file.unlink()
            file.parent.rmdir()  # fails if anything else is in it


def _check_space(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Raise OSError if the copy does not fit: every opening would write until the disk is full."""
    (needed,) = connection.execute(statement("used_bytes")).fetchall()[0]
    free = shutil.disk_usage(file.parent).free
    if needed > free:
        raise OSError(f"it needs {needed / 1e6:.1f} MB of disk space, {free / 1e6:.1f} MB are free")


def _copy_access(file: Path, copy: Path) -> None:
    """Give the copy the owner and the mode of the file; to the group nothing if the group is another one."""
    status = file.stat()
    mode = status.st_mode & 0o777
    if os.name == "posix":
        with suppress(PermissionError):
            os.chown(copy, status.st_uid, status.st_gid)
        if copy.stat().st_gid != status.st_gid:
            mode &= 0o707
    copy.chmod(mode)
