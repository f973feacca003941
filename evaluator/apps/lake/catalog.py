"""The catalog of a lake: where it is, its tables, and attaching it.

A lake has the tables of a database file, by the same names; `spans` and `logs` also have the `session_id`
that they belong to, and `landed` names the files that were read. In place of the order of arrival stands the
number of a batch (`seq`): each file holds the rows of one, so that the catalog knows which files may have a
trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import duckdb

from spangrade.evaluator.derive.schema import comment_statements, create_statements
from spangrade.evaluator.derive.sync.fingerprint import fingerprint
from spangrade.evaluator.derive.sync.update import forget
from spangrade.tracer.base.errors import SpangradeError, StoreError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.store import Store
from spangrade.tracer.store.object_storage import (
    QUERY_ERRORS,
    first_line,
    is_inside,
    make_folder,
    storage_connection,
)
from spangrade.tracer.store.sql import statement, text_literal

NAME = "store"  # of the attached lake, as `Store` names its file
PREFIX = "postgres:"
_SECRET = re.compile(r"(?i)\bpassword\s*=|://[^/@\s]*:[^/@\s]*@|\bsslpassword\s*=")
# Of the tables of a file, those that a lake does not need.
_WITHOUT = frozenset({"main.schema_version", "main.last_import", "derived.changed"})
DERIVE_AGAIN = "`spangrade lake derive` derives all of it again"


class Lake(NamedTuple):
    """A lake: its catalog as DuckLake takes it, and where its files are (None: where the catalog says)."""

    catalog: str
    data: str | None = None

    def __str__(self) -> str:
        return self.catalog


def lake_at(catalog: str, data: str | None = None) -> Lake:
    """Return the lake of a catalog. Raises InputError for one that is not in Postgres or names a password.

    A password on a command line is visible to everyone on the machine: libpq finds it in `PGPASSWORD`,
    `PGPASSFILE` or `~/.pgpass`.
    """
    if not catalog.startswith(PREFIX):
        raise FieldError("catalog", f"expected {PREFIX}dbname=NAME host=HOST user=USER")
    if _SECRET.search(catalog):
        raise FieldError("catalog", "expected no password in it: set PGPASSWORD, or keep it in ~/.pgpass")
    return Lake(catalog, data)


@contextmanager
def attached(lake: Lake, *, read_only: bool = True) -> Iterator[Store]:
    """Give a store whose default database is a lake, as it is now.

    Raises StoreError if the catalog cannot be reached or is not a lake's.
    """
    with storage_connection() as connection:
        attach(connection, lake, NAME, read_only=read_only)
        try:
            connection.execute(f"USE {NAME}")
            yield Store(connection, Path(str(lake)))
        except QUERY_ERRORS as error:
            raise StoreError(f"{lake}: {first_line(error)}") from error


def attach(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    name: str,
    *,
    read_only: bool = True,
    snapshot: int | None = None,
) -> None:
    """Attach a lake under a name. Raises StoreError if it cannot be."""
    options = ["READ_ONLY"] if read_only else []
    if not read_only and lake.data is not None:
        make_folder(lake.data)
        options.append(f"DATA_PATH {text_literal(f'{lake.data}/')}")
    if snapshot is not None:
        options.append(f"SNAPSHOT_VERSION {snapshot:d}")
    given = f" ({', '.join(options)})" if options else ""
    try:
        connection.execute(f"ATTACH {text_literal(f'ducklake:{lake.catalog}')} AS {name}{given}")
    except duckdb.Error as error:
        raise _open_error(lake, error) from error


def _open_error(lake: Lake, error: duckdb.Error) -> SpangradeError:
    text = str(error)
    if "creating a new DuckLake is explicitly disabled" in text:
        return StoreError(f"{lake}: no lake yet: `spangrade lake update` creates it where --data says")
    if "Unable to connect" in text:
        reason = re.search(r"(?:failed|FATAL): +(.*)", text)
        return StoreError(f"{lake}: cannot connect: {reason[1].strip() if reason else first_line(error)}")
    if "DATA_PATH" in text:
        return FieldError("data", f"the files of {lake} are elsewhere: expected none")
    return StoreError(f"{lake}: cannot open the lake: {first_line(error)}")


@contextmanager
def writable(lake: Lake) -> Iterator[Store]:
    """Give a store whose default database is a lake, for writing; create its tables if there are none.

    Raises StoreError if another version of spangrade derived what is in it.
    """
    with attached(lake, read_only=False) as store:
        if not lake_tables(store):
            _create(store)
        yield store


def lake_tables(store: Store) -> list[str]:
    """Return the tables of a lake, each with its schema; none of one that is new."""
    rows = store.query(
        "SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE database_name = $name ORDER BY 1",
        {"name": NAME},
    )
    return [str(name) for (name,) in rows]


def data_path(store: Store) -> str:
    """Return where the files of a lake are, without a slash at the end."""
    rows = store.query(
        "SELECT value FROM ducklake_options($lake) WHERE option_name = 'data_path'", {"lake": NAME}
    )
    if not rows:
        raise StoreError(f"{store.path}: its catalog does not say where its files are")
    return str(rows[0][0]).rstrip("/")


def check_landing(landing: str, data: str) -> None:
    """Raise InputError if landing files are among the lake's own, where upkeep would remove them."""
    if is_inside(landing, data) or is_inside(data, landing):
        raise FieldError("landing", f"expected a folder apart from the lake's files in {data}", landing)


class State(NamedTuple):
    """The start of an update: the newest snapshot, the last batch, and the version that derived it."""

    snapshot: int
    batch: int
    fingerprint: str

    def check_version(self, lake: Lake) -> None:
        """Raise StoreError if another version of spangrade derived the sessions, or with other settings."""
        if self.fingerprint != fingerprint():
            raise StoreError(f"{lake}: derived by another version of spangrade: {DERIVE_AGAIN}")


def state_of(store: Store) -> State:
    """Return the state of a lake."""
    ((snapshot,),) = store.query(f"FROM ducklake_current_snapshot('{NAME}')")
    ((made_by, batch),) = store.query("SELECT fingerprint, seq FROM derived.progress")
    return State(int(snapshot), int(batch), str(made_by))


def new_scratch(connection: duckdb.DuckDBPyConnection, name: str, file: Path | None = None) -> Store:
    """Attach an empty database with the tables of a file, in memory or as a file, and use it."""
    connection.execute(f"ATTACH {text_literal(':memory:' if file is None else str(file))} AS {name}")
    connection.execute(f"USE {name}")
    connection.execute(statement("schema"))
    store = Store(connection, file or Path(name))
    store.query(statement("arrivals"))
    forget(store)
    return store


def _create(store: Store) -> None:
    """Create the tables and views of a lake: those of a file."""
    connection = store.connection
    scratch = new_scratch(connection, "scratch")
    tables = scratch.query(
        "SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE database_name = 'scratch'"
    )
    connection.execute(f"USE {NAME}")
    with store.transaction():
        store.query("CREATE SCHEMA derived")
        for (table,) in tables:
            if table not in _WITHOUT:
                store.query(f"CREATE TABLE {table} AS FROM scratch.{table} LIMIT 0")
        for table in ("spans", "logs"):
            store.query(f"ALTER TABLE {table} ADD COLUMN session_id VARCHAR")
        store.query("CREATE TABLE landed (file VARCHAR, batch BIGINT)")
        store.query("CREATE TABLE unfinished_deletion (session_id VARCHAR)")
        create_views(store)
        store.query("INSERT INTO derived.progress VALUES ($fingerprint, 0)", {"fingerprint": fingerprint()})
    connection.execute("DETACH scratch")


def add_columns(store: Store, other: str) -> None:
    """Add the tables and columns that those of a file have since, taken from an empty database."""
    for table, column, kind, is_new in store.query(
        statement("missing_columns", "spangrade.evaluator.apps.lake.sql"), {"lake": NAME, "other": other}
    ):
        if is_new and table not in _WITHOUT:
            store.query(f"CREATE TABLE IF NOT EXISTS {table} AS FROM {other}.{table} LIMIT 0")
        elif not is_new:
            store.query(f'ALTER TABLE {table} ADD COLUMN "{column}" {kind}')


def create_views(store: Store) -> None:
    """Create the views of a file; DuckLake keeps no comments on their columns."""
    for text in create_statements():
        if text.startswith("CREATE OR REPLACE VIEW"):
            store.query(text)
    for name in ("state_variables", "question_metadata"):
        store.query(statement(name, "spangrade.evaluator.derive.sync.sql"))
    for text in comment_statements():
        if text.startswith("COMMENT ON VIEW"):
            store.query(text)
