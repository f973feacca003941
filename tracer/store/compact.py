"""Free the space of deleted rows. DuckDB keeps it in the file, so the rest is copied to a new one."""

from __future__ import annotations

import shutil

import duckdb

from spangrade.tracer.errors import StoreError
from spangrade.tracer.store.store import Store
from spangrade.tracer.store.untrusted import NEW_FILE, attach, shrinking_copy


def shrink(store: Store) -> int:
    """Replace a database's file by a copy without the space of deleted rows; return the bytes saved.

    Close the store afterwards: it still has the old file open. A process that opened the old file at the same
    moment notices and opens the new one. Raises StoreError, with the file as it was, if the copy fails.
    """
    file = store.path.resolve()  # a link to it stays
    copy = shrinking_copy(file)
    before = file.stat().st_size
    copy.unlink(missing_ok=True)  # left by an interrupted run
    try:
        store.connection.execute("CHECKPOINT store")  # or the write-ahead log would outlive its file
        attach(store.connection, copy, "copy", NEW_FILE)
        shutil.copymode(file, copy)  # before it holds anything
        store.connection.execute("COPY FROM DATABASE store TO copy")
        store.connection.execute("DETACH copy")
        after = copy.stat().st_size
        copy.replace(file)
    except (duckdb.Error, OSError) as error:
        copy.unlink(missing_ok=True)
        raise StoreError(f"{store.path}: cannot be copied to shrink it: {error}") from error
    return before - after
