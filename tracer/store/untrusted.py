"""Open a database file as untrusted input: someone else may have written it.

Its views, macros and defaults run with the rights of the process that reads it. So DuckDB is barred from all
other files, the network, extensions and Python's variables before it reads the first byte; and a file that
defines a function, type or view under a name of DuckDB's own is refused, because our statements would use it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import duckdb

from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.base.file_modes import restrict
from spangrade.tracer.base.memory import MEMORY_LIMIT_VARIABLE
from spangrade.tracer.store.arrow import BATCH
from spangrade.tracer.store.sql import statement, text_literal

MEMORY_LIMIT = "1GB"  # of what DuckDB keeps in memory; deriving and grading 1,000,000 spans fit in it

# DuckDB does not keep the size of row groups in the file: it is given at every ATTACH. Without a TYPE it
# looks for an extension that can read the file.
READ_ONLY = "TYPE duckdb, READ_ONLY"
EXISTING_FILE = f"TYPE duckdb, ROW_GROUP_SIZE {BATCH}"
# Blocks of a quarter of DuckDB's: a first file of one question has 1.1 MB instead of 3.7, one of 5,000
# sessions 17 MB instead of 26, in the same time. The version is of the oldest DuckDB that must read it.
NEW_FILE = f"{EXISTING_FILE}, STORAGE_VERSION 'v1.5.0', BLOCK_SIZE 65536"

# What a file was when this process closed it after the look for hidden names, which costs 30 ms of CPU: an
# exporter opens its database for each batch, the receiver every second. A new file hides nothing.
_checked: dict[str, tuple[tuple[int, ...], frozenset[str]]] = {}

# Instances of DuckDB whose database is closed, by its location and their memory limit: to start another one
# takes 15 ms of CPU, to attach the file again 1 ms. Each takes 4 MB, and keeps what it has allocated: 15 MB
# after the spans of a file of 8 MB were read, 23 MB after those of one of 50 MB. Without a lock: each step on
# it is atomic, and a fork could inherit a lock that is held.
_idle: dict[tuple[str, str], duckdb.DuckDBPyConnection] = {}
_MOST_IDLE = 2
_IDLE_FILE_BYTES = 64_000_000  # of a larger file no instance waits

_FILES_OF_ONE_DATABASE = ("", ".wal", ".wal.checkpoint", ".wal.recovery")
_SETTINGS = (
    "enable_external_access = false",
    "python_enable_replacements = false",
    "allow_persistent_secrets = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    # A checkpoint is slow and blocks: one at close instead of one after every 16 MB.
    "checkpoint_threshold = '256MB'",
    "arrow_lossless_conversion = true",  # types that Arrow lacks keep their names: JSON, HUGEINT
)


class Connected(NamedTuple):
    """A connection whose default database is a file, as `store`, and the instance of DuckDB that it is of.

    `again` is the key under which the instance may wait for the next opening of the file, None if it may not.
    """

    connection: duckdb.DuckDBPyConnection
    instance: duckdb.DuckDBPyConnection
    again: tuple[str, str] | None
    checked: frozenset[str]  # schemas whose tables this process found as expected when it had the file open

    def close(self) -> None:
        """Close the database; keep the instance for the next opening of the file, if that is small."""
        self.connection.close()
        if self.again is not None and _is_small(self.again[0]):
            with suppress(duckdb.Error):  # it is broken
                self.instance.execute("DETACH store")
                _idle[self.again] = self.instance
                end_idle(keep=_MOST_IDLE)
                return
        self.instance.close()


def _is_small(location: str) -> bool:
    """Return whether a file is small. The folder to which a query spilled goes with the instance."""
    try:
        size = Path(location).stat().st_size
    except OSError:
        return False
    return size <= _IDLE_FILE_BYTES and not os.path.lexists(f"{location}.tmp")


def end_idle(keep: int = 0) -> None:
    """End the instances that wait for an opening, and so their threads, which a fork does not copy."""
    while len(_idle) > keep:
        with suppress(StopIteration, RuntimeError, KeyError):  # another thread has taken it
            _idle.pop(next(iter(_idle))).close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=end_idle)


def connect(
    path: Path, *, read_only: bool = False, confined: bool = False, memory_limit: str = MEMORY_LIMIT
) -> Connected:
    """Return a connection whose default database is the file at `path`, created if need be, as `store`.

    The configuration is locked. Beside the file, DuckDB may use its write-ahead log, `FILE.tmp/` for what
    does not fit in memory and the copy that `shrink` makes. With `confined`, for a query that someone else
    wrote, the database is read-only and no file can be opened at all: what does not fit in memory fails.
    Raises StoreError if the file hides a part of DuckDB, duckdb.Error if it cannot be attached.
    """
    location = os.path.realpath(path)  # as DuckDB compares it
    read_only = read_only or confined
    options = READ_ONLY if read_only else EXISTING_FILE if path.exists() else NEW_FILE
    new = options == NEW_FILE
    limit = os.environ.get(MEMORY_LIMIT_VARIABLE) or memory_limit
    again = None if confined else (location, limit)
    instance = None if again is None else _idle.pop(again, None)
    is_locked = instance is not None
    if instance is None:
        instance = _instance(limit)
    connection = instance.cursor()
    try:
        if not is_locked:
            _configure(connection, location, confined)
        attach(connection, Path(location), "store", options)
        if new:
            restrict(Path(location))
        if confined:
            connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
        checked = _unchanged_since_check(location)
        if checked is None and not (new and _file_state(location) is not None):
            _refuse_hidden_names(connection, path)
        connection.execute("USE store")
        if not is_locked:
            connection.execute("SET lock_configuration = true")
    except BaseException:
        connection.close()
        instance.close()
        raise
    return Connected(connection, instance, again, checked or frozenset())


def _configure(connection: duckdb.DuckDBPyConnection, location: str, confined: bool) -> None:
    """Set what holds for every opening of a file by an instance."""
    databases = [location] if confined else [location, str(shrinking_copy(Path(location)))]
    allowed = [name + suffix for name in databases for suffix in _FILES_OF_ONE_DATABASE]
    connection.execute(f"SET allowed_paths = [{', '.join(map(text_literal, allowed))}]")
    connection.execute(f"SET temp_directory = {text_literal('' if confined else f'{location}.tmp')}")
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    if not confined:  # names to propose in an error, which a person reads, take 7 ms to find
        connection.execute("SET catalog_error_max_schemas = 0")


def connect_to_read(path: Path, memory_limit: str = MEMORY_LIMIT) -> duckdb.DuckDBPyConnection:
    """Return a connection without a database that can open this one file, which is not a database."""
    connection = _instance(os.environ.get(MEMORY_LIMIT_VARIABLE) or memory_limit)
    connection.execute(f"SET allowed_paths = [{text_literal(str(path))}]")
    connection.execute("SET temp_directory = ''")
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    connection.execute("SET lock_configuration = true")
    return connection


def remember_checked(path: Path, checked: Iterable[str] = ()) -> None:
    """Let `connect` trust the names in a file that it has checked, until another process changes the file.

    `checked` are the schemas whose tables are as expected. To be called when the connection is closed.
    """
    location = os.path.realpath(path)
    state = _file_state(location)
    if state is None:
        _checked.pop(location, None)
    else:
        _checked[location] = state, frozenset(checked)


def _unchanged_since_check(location: str) -> frozenset[str] | None:
    """Return the schemas of a file whose tables were checked; None if it has changed since, or never was."""
    state, checked = _checked.get(location, (None, frozenset()))
    return None if state is None or state != _file_state(location) else checked


def _file_state(location: str) -> tuple[int, ...] | None:
    """Return a state that changes with every write to a file; None if it has a write-ahead log."""
    if os.path.lexists(f"{location}.wal"):
        return None
    try:
        stat = Path(location).stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def attach(connection: duckdb.DuckDBPyConnection, path: Path, name: str, options: str) -> None:
    """Attach a database file under a name."""
    connection.execute(f"ATTACH {text_literal(str(path))} AS {name} ({options})")  # it takes no parameters


def shrinking_copy(path: Path) -> Path:
    """Return the path of the copy, in its own folder, that replaces a database after rows were deleted."""
    return path.with_name(f"{path.name}.shrinking") / path.name


def table_problem(
    connection: duckdb.DuckDBPyConnection, schema: str, tables: Mapping[str, Mapping[str, str]]
) -> str | None:
    """Return the first table or column that a schema of the store lacks, None if it has all.

    `tables` gives the DuckDB types by table and column, VARCHAR for JSON too. What else there is, is ignored.
    """
    for table, columns in tables.items():
        types = column_types(connection, table, schema)
        if types is None:
            return f'"{table}" is not a table'
        for column, expected in columns.items():
            found = types.get(column, "no such column").replace("JSON", "VARCHAR")
            if found != expected:
                return f'table "{table}", column "{column}": expected {expected}, found {found}'
    return None


def column_types(
    connection: duckdb.DuckDBPyConnection, table: str, schema: str = "main"
) -> dict[str, str] | None:
    """Return the DuckDB types of a table's columns in the store by name; None if there is no such table.

    To be called outside of transactions, which DuckDB aborts if there is none. To list all tables instead
    takes 7 ms in each connection: DuckDB parses its own views for it.
    """
    try:
        rows = connection.execute(f"FROM pragma_table_info('store.{schema}.{table}')").fetchall()
    except duckdb.Error:  # nothing of this name, or a view that cannot be used
        return None
    if not any(not_null for _, _, _, not_null, *_ in rows):  # of a view no column is
        listed = "SELECT 1 FROM duckdb_tables() WHERE database_name = 'store' AND schema_name = $schema"
        names = {"schema": schema, "table": table}
        if connection.execute(f"{listed} AND table_name = $table", names).fetchone() is None:
            return None
    return {name: kind for _, name, kind, *_ in rows}


def _instance(limit: str) -> duckdb.DuckDBPyConnection:
    """Start DuckDB with a memory limit: its default is 80% of the machine's memory."""
    try:
        return duckdb.connect(":memory:", config={"memory_limit": limit})
    except duckdb.Error as error:
        raise StoreError(f"{MEMORY_LIMIT_VARIABLE} is {limit!r}: expected a size such as 1GB") from error


def _refuse_hidden_names(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Raise StoreError if the file defines something that our statements would use without meaning to.

    To be called before the file is the default database: after that, what it hides is hidden here too.
    """
    hidden = connection.execute(statement("hidden_names")).fetchone()
    if hidden is not None:
        kind, name = hidden
        raise StoreError(f'{path}: it defines a {kind} "{name}", which hides DuckDB\'s own: drop it first')
    try:
        trigger = connection.execute(statement("triggers")).fetchone()
    except duckdb.CatalogException:
        return  # DuckDB 1 has no triggers
    if trigger is not None:
        raise StoreError(f'{path}: it defines a trigger "{trigger[0]}" on "{trigger[1]}": drop it first')
