"""Landing files: spans and logs on their way into a lake, as Parquet files in a folder or in S3.

`dt=2026-01-31/hh=09/NAME.spans.parquet` holds what arrived in one hour (UTC), in the columns of the table of
a database file, JSON as text. A file appears whole, and a name always means the same rows: sending
it again replaces it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import nanoarrow as na

from spangrade.tracer.store.arrow import Table, joined
from spangrade.tracer.store.object_storage import REMOTE, copy_to, make_folder

SPANS, LOGS = ".spans.parquet", ".logs.parquet"


def write_landing(
    connection: duckdb.DuckDBPyConnection,
    landing: str,
    name: str,
    time_ns: int,
    tables: Mapping[Table, Sequence[na.Array]],
) -> list[str]:
    """Write rows that arrived at a time as landing files of a name; return their URLs.

    Raises StoreError if one cannot be written.
    """
    hour = datetime.fromtimestamp(time_ns // 10**9, UTC)
    folder = f"{landing}/dt={hour:%Y-%m-%d}/hh={hour:%H}"
    make_folder(folder)
    urls = []
    for table, parts in tables.items():
        if not parts:
            continue
        url = f"{folder}/{name}{SPANS if table == 'spans' else LOGS}"
        connection.register("incoming", joined(parts))
        try:
            write_whole(connection, "FROM incoming", url)
        finally:
            connection.unregister("incoming")
        urls.append(url)
    return urls


def write_whole(connection: duckdb.DuckDBPyConnection, query: str, url: str) -> None:
    """Write the rows of a query to a Parquet file, which appears whole or replaces the one of its name."""
    if url.startswith(REMOTE):
        copy_to(connection, query, url)
        return
    growing = Path(f"{url}.growing")  # not among the files that an update looks for
    copy_to(connection, query, str(growing))
    with growing.open("rb+") as file:
        os.fsync(file.fileno())
    growing.replace(url)
