"""The store: one DuckDB file that holds spans and logs as they came."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import duckdb
import nanoarrow as na

from spangrade.tracer.base.errors import OldSchemaError, StoreError, StoreLockedError
from spangrade.tracer.base.file_modes import restrict_like
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store.arrow import COLUMNS, KEYS, Table, batches, joined, rows_of, sql_rank
from spangrade.tracer.store.compact import pending, remove_copy, remove_spilled, shrink, spilled
from spangrade.tracer.store.locks import Turns, retry_while_locked, turns_at
from spangrade.tracer.store.sql import error_line, migrations, statement
from spangrade.tracer.store.untrusted import Connected, column_types, connect, remember_checked, table_problem

_log = logging.getLogger("spangrade")
_MARK_EVERY_S = 3600.0
_TIMES = {"spans": "start_ns", "logs": "time_ns"}


class Added(NamedTuple):
    """How many records were new, and how many had been delivered before."""

    spans: int
    logs: int
    duplicates: int


class Store:
    """An open database of spans. Safe to use from several threads; one process at a time may write.

    `connection` is for queries of the caller's own; its default database is the store. `deleted_before` are
    the sessions whose deletion an earlier process did not finish.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self.deleted_before: frozenset[str] = frozenset()
        self.checked: set[str] = set()  # schemas whose tables are known to be as statements expect them
        # What was read of a file, which no other process changes while it is open; None of anything else.
        self.known: dict[str, Any] | None = None
        self._inode = _inode(path)
        self._log = Path(f"{path.resolve()}.wal")
        self._lock = threading.RLock()
        self._next_mark_s = float("-inf")
        self._turns: Turns | None = None  # until it is closed
        self._connected: Connected | None = None  # if the store is a file

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        read_only: bool = False,
        confined: bool = False,
        wait_s: float = 0.0,
        stop: threading.Event | None = None,
    ) -> Self:
        """Open a database; create it or upgrade its schema if necessary, unless `read_only`.

        Unless `read_only`, a deletion that was interrupted is finished first.

        Nothing in it can reach another file, the network or Python's variables. With `confined`, for queries
        of someone else, it is read-only and no file can be opened at all, not even for what exceeds memory.

        If another process has it open, wait for at most `wait_s` seconds, or until `stop` is set.
        Raises StoreLockedError if it is still open there, OldSchemaError if it is to be read and an earlier
        version wrote it, StoreError if it cannot be used.
        """
        file = database_file(path)
        turns = turns_at(file)
        if turns is None:
            return retry_while_locked(lambda: cls._open_current(file, read_only, confined), wait_s, stop)
        turns.take(wait_s, stop)
        try:
            store = retry_while_locked(lambda: cls._open_current(file, read_only, confined), wait_s, stop)
        except BaseException:
            turns.give()
            raise
        store._turns = turns
        return store

    @classmethod
    def _open_current(cls, path: Path, read_only: bool, confined: bool) -> Self:
        """Open the file; open again if a compacted copy took its place in the meantime."""
        deleted_before: frozenset[str] = frozenset()
        while True:
            before = _inode(path)
            store = cls._open(path, read_only, confined)
            if before is None or store._inode == before:
                if read_only or confined or not store._finish_deletion():
                    store.deleted_before |= deleted_before
                    return store
                deleted_before = store.deleted_before
            store.close()

    def _finish_deletion(self) -> bool:
        """Finish a deletion that was interrupted; return whether the file was replaced."""
        try:
            remove_copy(self.path)
            unfinished = pending(self.connection)
            if unfinished is None:
                return False
            self.deleted_before = unfinished
            shrink(self.connection, self.path)
        except (StoreError, duckdb.Error, OSError) as error:  # the database can be used even so
            _log.warning("%s", error)
            return False
        return True

    @classmethod
    def _open(cls, path: Path, read_only: bool, confined: bool) -> Self:
        if (read_only or confined) and not path.exists():
            raise StoreError(f"{path}: no such database: import spans first, or name another")
        try:
            leftover = {} if read_only or confined else spilled(path)
            is_new = not path.exists()
            connected = connect(path, read_only=read_only, confined=confined)
            try:
                remove_spilled(path, leftover)
                if "main" not in connected.checked:
                    _migrate(connected.connection, path, read_only=read_only or confined, is_new=is_new)
                    if problem := table_problem(connected.connection, "main", COLUMNS):
                        raise StoreError(f"{path}: not a spangrade database: {problem}")
            except BaseException:
                connected.close()
                raise
        except duckdb.Error as error:
            raise _open_error(path, error) from error
        store = cls(connected.connection, path)
        store._connected = connected
        store.checked, store.known = {"main", *connected.checked}, {}
        if not read_only:
            restrict_like(store._log, path)
        return store

    def add(self, records: Iterable[Span | LogRecord]) -> Added:
        """Write records, except those that the database has; return how many of each.

        When it returns, they are on disk. Raises StoreError, with nothing of the failed batch kept.
        """
        added = Added(0, 0, 0)
        for batch in batches(records):
            tables = rows_of(batch)
            new = self.add_rows({table: [rows] for table, rows in tables.items()})
            repeated = len(batch) - sum(map(len, tables.values()))
            added = Added(
                added.spans + new.spans, added.logs + new.logs, added.duplicates + new.duplicates + repeated
            )
        return added

    def add_rows(self, tables: Mapping[Table, Sequence[na.Array]]) -> Added:
        """Write rows made by `rows_of`: all of them or, if it raises StoreError, none."""
        try:
            with self._lock, self.transaction():
                self._mark_arrival()
                spans = self._insert("spans", tables.get("spans", ()))
                logs = self._insert("logs", tables.get("logs", ()))
        except duckdb.Error as error:
            raise StoreError(f"{self.path}: cannot write: {error}") from error
        given = sum(len(rows) for parts in tables.values() for rows in parts)
        return Added(spans, logs, given - spans - logs)

    def _mark_arrival(self) -> None:
        """Record when the next records arrive, to the hour."""
        if time.monotonic() >= self._next_mark_s:
            self.query(statement("arrivals"))
            self.query(statement("mark_arrival"), {"now": time.time_ns()})
            self._next_mark_s = time.monotonic() + _MARK_EVERY_S

    def first_arrival_after(self, time_ns: int) -> int:
        """Return the `seq` of the first record that may have arrived after a time."""
        self.query(statement("arrivals"))
        times = {"time": time_ns, "now": time.time_ns()}
        return int(self.query(statement("first_arrival_after"), times)[0][0])

    def _insert(self, table: Table, parts: Sequence[na.Array]) -> int:
        if not parts:
            return 0
        rows = joined(parts)
        column = _TIMES[table]
        ((first, last, distinct),) = self.query(
            f"SELECT min({column}), max({column}), count(DISTINCT ({', '.join(KEYS[table])})) FROM incoming",  # noqa: S608 (our own names)
            incoming=rows,
        )
        if len(parts) > 1 and distinct < len(rows):  # two parts share a record: the second must see the first
            return sum(self._insert(table, [part]) for part in parts)
        times = {"first": first, "last": last}
        if table == "spans" and not self.query(statement("present_spans"), times, incoming=rows):
            # Most deliveries. Without the join rows keep their order and take 7 µs each, not 9.
            inserted = self.query("INSERT INTO spans BY NAME FROM incoming", incoming=rows)
        else:
            inserted = self.query(statement(f"insert_{table}"), times, incoming=rows)
            if inserted[0][0] < len(rows) and self._delete_outranked(table, rows, times):
                self.query(statement(f"insert_{table}"), times, incoming=rows)
        return int(inserted[0][0])

    def _delete_outranked(self, table: Table, rows: na.Array, times: dict[str, int]) -> int:
        """Delete the rows in whose place incoming ones are stored; return how many (see `rank`)."""
        # JSON has no equality of its own.
        same = (
            f"present.{name}::VARCHAR IS NOT DISTINCT FROM incoming.{name}::VARCHAR" for name in KEYS[table]
        )
        delete = statement("delete_outranked").format(
            table=table,
            time=_TIMES[table],
            same=" AND ".join(same),
            incoming_rank=sql_rank(table, "incoming"),
            present_rank=sql_rank(table, "present"),
        )
        return int(self.query(delete, times, incoming=rows)[0][0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the block's statements together or, if it raises, none of them."""
        self.connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")
        restrict_like(self._log, self.path)

    def query(
        self, text: str, parameters: dict[str, Any] | None = None, **tables: na.Array
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, which may read from Arrow tables by the names given."""
        for name, table in tables.items():
            self.connection.register(name, table)
        try:
            return self.connection.execute(text, parameters or {}).fetchall()
        finally:
            for name in tables:
                with suppress(duckdb.Error):  # in a transaction that failed, whose end unregisters it
                    self.connection.unregister(name)

    def in_place(self) -> bool:
        """Return whether the open file is still the one at `path`."""
        return self._inode is not None and _inode(self.path) == self._inode

    def close(self) -> None:
        """Close the database; everything that was added is in the file."""
        (self._connected or self.connection).close()
        remember_checked(self.path, self.checked)
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.give()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        if isinstance(error, duckdb.Error):  # the file has views and values that a statement did not expect
            raise StoreError(f"{self.path}: {error_line(error)}") from error


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _migrate(connection: duckdb.DuckDBPyConnection, path: Path, *, read_only: bool, is_new: bool) -> None:
    known = migrations()
    oldest, newest = known[0][0] - 1, known[-1][0]
    version = _schema_version(connection, path, is_new)
    if version > newest:
        raise StoreError(
            f"{path}: written by a newer spangrade (schema {version}, this one knows {newest}): upgrade it"
        )
    if version and version < oldest:
        raise StoreError(
            f"{path}: schema {version}, expected {oldest} to {newest}: import its spans into a new database"
        )
    if version < newest and read_only:
        raise OldSchemaError(
            f"{path}: schema {version} is older than {newest}: open it once for writing to upgrade it"
        )
    if version == newest:
        return
    changes = [text for number, text in known if number > version] if version else []
    # In one transaction: each commit waits for the disk.
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
    for text in (statement("schema"), *changes):
        connection.execute(text)
    versions = list(range(version + 1, newest + 1))
    connection.execute("INSERT INTO schema_version SELECT unnest($versions)", {"versions": versions})
    connection.execute("COMMIT")


def _schema_version(connection: duckdb.DuckDBPyConnection, path: Path, is_new: bool) -> int:
    """Return the version of the schema, 0 for a new file. Another process may have made it since."""
    if column_types(connection, "schema_version") is None:
        if is_new or connection.execute("SELECT 1 FROM duckdb_tables() LIMIT 1").fetchone() is None:
            return 0
        raise StoreError(f"{path}: not a spangrade database: name another file")
    row = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def _open_error(path: Path, error: duckdb.Error) -> StoreError:
    text = str(error)
    if "Could not set lock" in text or "already attached" in text:
        holder = re.search(r"lock is held in (\S+) \(PID (\d+)\)", text)
        who = f" ({Path(holder[1]).name}, PID {holder[2]})" if holder else ""
        return StoreLockedError(
            f"{path}: another process has this database open{who}: "
            "close it there, or try again when it is done"
        )
    if "not a valid DuckDB database" in text:
        message = f"{path}: not a DuckDB database: name another file"
        return StoreLockedError(message) if _may_be_new(path) else StoreError(message)
    if "newer version" in text:
        return StoreError(f"{path}: written by a newer DuckDB: upgrade the duckdb package")
    return StoreError(f"{path}: cannot open: {error_line(error)}")


def _may_be_new(path: Path) -> bool:
    """Return whether a file without a database in it may be one that another process has just created.

    It is empty until that process has locked it, and has a header by now.
    """
    try:
        with path.open("rb") as file:
            header = file.read(12)
    except OSError:
        return False
    return not header or header[8:] == b"DUCK"


def database_file(path: str | Path) -> Path:
    """Return the path of the database's file: the target of a symbolic link, else the path as it is.

    Its spool, its locks and its compacted copy are beside that file.
    """
    path = Path(path)
    return Path(os.path.realpath(path)) if path.is_symlink() else path


class Stored(Protocol):
    """A database that is opened for each piece of work, a DuckDB file or a lake, and how it is opened.

    Code that reads or writes derived tables, runs, scores, labels and messages gets a `Stored`, opens it, and
    works on its `Store`. A lake has the same tables without keys, sequences, indexes and defaults: no
    statement relies on them.
    """

    @property
    def path(self) -> Path:
        """The path, as messages name it."""
        ...

    @property
    def file(self) -> Path:
        """The file, for what needs one. Raises InputError for a lake."""
        ...

    def exists(self) -> bool:
        """Return whether there is such a database."""
        ...

    def reading(
        self, *, wait_s: float = ..., confined: bool = False, derived: bool = True
    ) -> AbstractContextManager[Store]:
        """Give the store to be read, with `derived` once its sessions are up to date.

        With `confined` it is for a query of someone else. Raises StoreLockedError if another process has it
        open for longer than `wait_s`, StoreError if it cannot be read.
        """
        ...

    def writing(self, *, wait_s: float = ...) -> AbstractContextManager[Store]:
        """Give the store to be written. Raises StoreLockedError and StoreError as `reading` does."""
        ...
