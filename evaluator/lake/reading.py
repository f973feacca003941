"""Reading a lake: by the same functions as a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import duckdb

from spangrade.evaluator.lake.catalog import NAME, Lake, attach, data_path
from spangrade.tracer.errors import StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.object_storage import connect_to_storage, first_line
from spangrade.tracer.store.sql import text_literal


class LakeReader:
    """A lake, attached when it is first read. Each reading sees one commit."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.path = Path(str(lake))
        self._connection: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def reading(self, *, confined: bool = False) -> Iterator[Store]:
        """Give the store, as one commit left it; with `confined` for a query, which is a transaction.

        Queries can open the files of the lake and no others, and write nothing. Raises StoreError if the lake
        cannot be read.
        """
        try:
            if self._connection is None:
                self._connection = _confined(self.lake)
            store = Store(self._connection, self.path)
            with nullcontext() if confined else store.transaction():
                yield store
        except duckdb.Error as error:
            self._connection = None  # it may be lost
            raise StoreError(f"{self.lake}: {first_line(error)}") from error


def _confined(lake: Lake) -> duckdb.DuckDBPyConnection:
    """Return a connection whose default database is the lake, and that can open its files alone."""
    connection = connect_to_storage()
    try:
        attach(connection, lake, NAME)
        connection.execute(f"USE {NAME}")
        files = data_path(Store(connection, Path(str(lake))))
        connection.execute(f"SET allowed_directories = [{text_literal(f'{files}/')}]")
        connection.execute("SET temp_directory = ''")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        connection.close()
        raise StoreError(f"{lake}: {first_line(error)}") from error
    except BaseException:
        connection.close()
        raise
    return connection
