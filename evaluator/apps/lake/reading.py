"""A lake as a stored database: read, graded and reviewed by the same functions as a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import duckdb

from spangrade.evaluator.apps.lake.catalog import NAME, Lake, attach, attached, data_path, lake_at, state_of
from spangrade.tracer.base.errors import InputError, StoreError
from spangrade.tracer.store import Store
from spangrade.tracer.store.object_storage import connect_to_storage, first_line
from spangrade.tracer.store.sql import text_literal


class LakeReader:
    """A lake, attached when it is first read. Each reading sees one commit; see `Stored`."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.path = Path(str(lake))
        self._connection: duckdb.DuckDBPyConnection | None = None

    def __reduce__(self) -> tuple[type[LakeReader], tuple[Lake]]:
        return LakeReader, (self.lake,)  # attached again, in another process

    @property
    def file(self) -> Path:
        """Raise InputError: there is no file."""
        raise InputError(f"{self.path}: a lake has no file: `spangrade lake` imports, derives and deletes")

    def exists(self) -> bool:
        """Return true: reading one that does not exist says so."""
        return True

    @contextmanager
    def writing(self, *, wait_s: float = 0) -> Iterator[Store]:  # noqa: ARG002 (a lake is not locked)
        """Give the store to be written. Raises StoreError if another version derived what is in it."""
        with attached(self.lake, read_only=False) as store:
            state_of(store).check_version(self.lake)
            yield store

    @contextmanager
    def reading(
        self,
        *,
        wait_s: float = 0,  # noqa: ARG002 (a lake is not locked)
        confined: bool = False,
        derived: bool = True,  # noqa: ARG002 (`spangrade lake update` derives)
    ) -> Iterator[Store]:
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


def reader_at(catalog: str) -> LakeReader:
    """Return the lake of a catalog. Raises InputError for a catalog that cannot be one."""
    return LakeReader(lake_at(catalog))


def _confined(lake: Lake) -> duckdb.DuckDBPyConnection:
    """Return a connection whose default database is the lake, and that can open its files alone."""
    connection = connect_to_storage()
    try:
        attach(connection, lake, NAME)
        connection.execute(f"USE {NAME}")
        files = data_path(Store(connection, Path(str(lake))))
        connection.execute(f"SET allowed_directories = [{text_literal(f'{files}/')}]")
        # No import is the last one of a lake.
        connection.execute("CREATE TEMP TABLE last_import (trace_id VARCHAR)")
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
