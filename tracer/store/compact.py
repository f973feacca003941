"""Giving back the room of deleted rows. DuckDB keeps it in the file: what is left goes to a new one."""

from __future__ import annotations

import shutil

import duckdb

from spangrade.tracer.errors import StoreError
from spangrade.tracer.store.store import BATCH, Store


def shrink(store: Store) -> int:
    """Put a copy of what a database holds in its file's place; return the bytes that this saved.

    The store must be closed after it: what is open is the old file. Whoever opened that at the same moment
    sees that it was replaced and opens again. Raises StoreError, with the file as it was, if there is no room
    for the copy.
    """
    copy = store.path.with_name(f"{store.path.name}.shrinking")
    before = store.path.stat().st_size
    copy.unlink(missing_ok=True)  # of one that was interrupted
    location = str(copy).replace("'", "''")  # ATTACH takes no parameters
    try:
        store.connection.execute("CHECKPOINT store")  # nothing is left in a log that would belong to no file
        options = f"ROW_GROUP_SIZE {BATCH}, STORAGE_VERSION 'v1.5.0'"
        store.connection.execute(f"ATTACH '{location}' AS copy ({options})")
        store.connection.execute("COPY FROM DATABASE store TO copy")
        store.connection.execute("DETACH copy")
        shutil.copymode(store.path, copy)
        after = copy.stat().st_size
        copy.replace(store.path)
    except (duckdb.Error, OSError) as error:
        copy.unlink(missing_ok=True)
        raise StoreError(f"{store.path}: cannot be copied to shrink it: {error}") from error
    return before - after
