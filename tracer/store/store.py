"""The store: one DuckDB file that holds spans and logs as they came.

Figures that shaped it (60,000 spans of 1.8 kB, two cores, DuckDB 2.0): Arrow through nanoarrow 160
thousand spans a second, one JSON document a batch 30, lists unnested 50 (1 on DuckDB 1.5).
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import duckdb
import nanoarrow as na

from spangrade.tracer.canonical_json import dumps
from spangrade.tracer.errors import StoreError, StoreLockedError
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store.sql import migrations, statement

# Row groups of 8,192 and batches that are a whole multiple of them skip the write-ahead log. The size is not
# kept in the file: it is given at every ATTACH.
BATCH = 8192

_TEXT, _INTEGER = na.string(), na.int64()
_JSON_COLUMNS = frozenset({"attributes", "events", "links", "resource", "body"})
_SPAN_TYPES = {name: _INTEGER if name in {"start_ns", "end_ns"} else _TEXT for name in Span._fields}
_LOG_TYPES = {name: _INTEGER if name == "time_ns" else _TEXT for name in LogRecord._fields}
_TIMES = {"spans": "start_ns", "logs": "time_ns"}
_KEYS = {
    "spans": "trace_id, span_id",
    "logs": "time_ns, trace_id, span_id, event_name, body, attributes",
}
_RETRY_EVERY_S = 0.05

MEMORY_LIMIT_VARIABLE = "SPANGRADE_MEMORY_LIMIT"
MEMORY_LIMIT = "1GB"  # of what DuckDB keeps in memory; deriving and grading 1,000,000 spans fit in it

Table = Literal["spans", "logs"]


class Added(NamedTuple):
    """How many of the records were new, and how many had been delivered before."""

    spans: int
    logs: int
    duplicates: int


class Store:
    """An open database of spans. Safe to use from several threads; one process at a time may write.

    `connection` is open to whoever reads (`derive`, `sql`); its default database is the store.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self._inode = _inode(path)
        self._lock = threading.RLock()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        read_only: bool = False,
        wait_s: float = 0.0,
        stop: threading.Event | None = None,
    ) -> Self:
        """Open a database, made (unless `read_only`) or brought up to this version's schema if need be.

        A database that another process holds is waited for, `wait_s` seconds at most, or until `stop` is set.
        Raises StoreLockedError if it is held still, StoreError if it cannot be used.
        """
        path = Path(path)
        give_up_s = time.monotonic() + wait_s
        while True:
            before = _inode(path)
            try:
                store = cls._open(path, read_only=read_only)
            except StoreLockedError:
                if time.monotonic() >= give_up_s:
                    raise
                if (stop or threading.Event()).wait(_RETRY_EVERY_S):
                    raise
                continue
            if before is None or store._inode == before:
                return store
            store.close()  # replaced by a smaller copy meanwhile: what is open is no longer the file

    @classmethod
    def _open(cls, path: Path, *, read_only: bool) -> Self:
        if read_only and not path.exists():
            raise StoreError(f"{path}: no such database: import spans first, or name another with --db")
        connection = _connection()
        options = "READ_ONLY" if read_only else f"ROW_GROUP_SIZE {BATCH}, STORAGE_VERSION 'v1.5.0'"
        if not read_only and path.exists():
            options = f"ROW_GROUP_SIZE {BATCH}"
        try:
            location = str(path).replace("'", "''")  # ATTACH takes no parameters
            connection.execute(f"ATTACH '{location}' AS store ({options})")
            connection.execute("USE store")
            # A checkpoint is dear and blocks: not after every 16 MB, and once at close.
            connection.execute("SET checkpoint_threshold = '256MB'")
            _migrate(connection, path, read_only=read_only)
        except duckdb.Error as error:
            connection.close()
            raise _refusal(path, error) from error
        except StoreError:
            connection.close()
            raise
        return cls(connection, path)

    def add(self, records: Iterable[Span | LogRecord]) -> Added:
        """Write records, those that are here already left out; return how many of each.

        When it returns, they are on disk. Raises StoreError, with nothing of the failed batch kept.
        """
        added = Added(0, 0, 0)
        for batch in _batches(records, BATCH):
            tables = rows_of(batch)
            new = self.add_rows({table: [rows] for table, rows in tables.items()})
            twice = len(batch) - sum(map(len, tables.values()))
            added = Added(
                added.spans + new.spans, added.logs + new.logs, added.duplicates + new.duplicates + twice
            )
        return added

    def add_rows(self, tables: Mapping[Table, Sequence[na.Array]]) -> Added:
        """Write what `rows_of` made: all of it or, if it raises StoreError, nothing."""
        try:
            with self._lock, self.transaction():
                spans = self._insert("spans", tables.get("spans", ()))
                logs = self._insert("logs", tables.get("logs", ()))
        except duckdb.Error as error:
            raise StoreError(f"{self.path}: cannot write: {error}") from error
        given = sum(len(rows) for many in tables.values() for rows in many)
        return Added(spans, logs, given - spans - logs)

    def _insert(self, table: Table, parts: Sequence[na.Array]) -> int:
        if not parts:
            return 0
        rows = (
            parts[0] if len(parts) == 1 else na.Array.from_chunks([c for p in parts for c in p.iter_chunks()])
        )
        time_column = _TIMES[table]
        ((first, last, distinct),) = self.query(
            f"SELECT min({time_column}), max({time_column}), count(DISTINCT ({_KEYS[table]})) FROM incoming",  # noqa: S608 (our own names)
            incoming=rows,
        )
        if len(parts) > 1 and distinct < len(rows):  # delivered twice, and neither is here yet: one by one
            return sum(self._insert(table, [part]) for part in parts)
        inserted = self.query(statement(f"insert_{table}"), {"first": first, "last": last}, incoming=rows)
        return int(inserted[0][0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all of what follows, or, if it raises, nothing."""
        self.connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

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
                self.connection.unregister(name)

    def in_place(self) -> bool:
        """Tell whether the file that is open is still the one at `path`."""
        return self._inode is not None and _inode(self.path) == self._inode

    def close(self) -> None:
        """Close the database; what was added is in the file."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def rows_of(records: Iterable[Span | LogRecord]) -> dict[Table, na.Array]:
    """Return records as the columns of their tables, a span that is among them twice once."""
    spans: dict[tuple[str, str], Span] = {}
    logs: list[LogRecord] = []
    for record in records:
        if isinstance(record, Span):
            spans.setdefault((record.trace_id, record.span_id), record)
        else:
            logs.append(record)
    tables: dict[Table, na.Array] = {}
    if spans:
        tables["spans"] = arrow_rows(list(spans.values()), _SPAN_TYPES)
    if logs:
        tables["logs"] = arrow_rows(logs, _LOG_TYPES)
    return tables


def arrow_column(name: str, texts: Iterable[str]) -> na.Array:
    """Return an Arrow table of one column of text, for a statement to look rows up by."""
    return arrow_rows([(text,) for text in texts], {name: _TEXT})


def arrow_rows(rows: Sequence[tuple[Any, ...]], types: dict[str, Any]) -> na.Array:
    """Return rows as an Arrow table for DuckDB; `types` names the columns in the rows' order.

    Columns that hold JSON values are written as JSON text.
    """
    columns = []
    cells = zip(*rows, strict=True) if rows else ((),) * len(types)
    for (name, kind), values in zip(types.items(), cells, strict=True):
        texts = _json_texts(values) if name in _JSON_COLUMNS else values
        columns.append(na.c_array(texts, kind))
    schema = na.struct(types)
    return na.Array(na.c_array_from_buffers(schema, len(rows), [None], children=columns))


def _json_texts(values: Sequence[Any]) -> list[str | None]:
    texts: list[str | None] = []
    last, text = None, None
    for value in values:
        if value is not last:  # a resource is one object, shared by all spans of a request
            last, text = value, None if value is None else dumps(value)
        texts.append(text)
    return texts


def _batches(records: Iterable[Span | LogRecord], size: int) -> Iterator[list[Span | LogRecord]]:
    iterator = iter(records)
    while batch := list(islice(iterator, size)):
        yield batch


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _connection() -> duckdb.DuckDBPyConnection:
    """Return a connection with a limit on its memory: DuckDB's own is 80% of the machine's."""
    limit = os.environ.get(MEMORY_LIMIT_VARIABLE) or MEMORY_LIMIT
    try:
        return duckdb.connect(":memory:", config={"memory_limit": limit})
    except duckdb.Error as error:
        raise StoreError(f"{MEMORY_LIMIT_VARIABLE} is {limit!r}: right is a size such as 1GB") from error


def _migrate(connection: duckdb.DuckDBPyConnection, path: Path, *, read_only: bool) -> None:
    known = migrations()
    newest = known[-1][0]
    tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if "schema_version" not in tables:
        if tables:
            raise StoreError(f"{path}: a DuckDB database of something else: name another file with --db")
        version = 0
    else:
        row = connection.execute("SELECT max(version) FROM schema_version").fetchone()
        version = int(row[0]) if row and row[0] is not None else 0
    if version > newest:
        raise StoreError(
            f"{path}: written by a newer spangrade (schema {version}, this one knows {newest}): upgrade it"
        )
    if version < newest and read_only:
        raise StoreError(
            f"{path}: schema {version} is older than {newest}: open it once for writing to upgrade it"
        )
    for number, text in known:
        if number > version:
            connection.execute("BEGIN")
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
            connection.execute(text)
            connection.execute("INSERT INTO schema_version VALUES ($version)", {"version": number})
            connection.execute("COMMIT")


def _refusal(path: Path, error: duckdb.Error) -> StoreError:
    text = str(error)
    if "Could not set lock" in text or "already attached" in text:
        holder = re.search(r"lock is held in (\S+) \(PID (\d+)\)", text)
        who = f" ({Path(holder[1]).name}, PID {holder[2]})" if holder else ""
        return StoreLockedError(
            f"{path}: another process has this database open{who}: "
            "close it there, or try again when it is done"
        )
    if "not a valid DuckDB database" in text:
        return StoreError(f"{path}: not a DuckDB database: name another file with --db")
    if "newer version" in text:
        return StoreError(f"{path}: written by a newer DuckDB: upgrade the duckdb package")
    return StoreError(f"{path}: cannot open: {text.splitlines()[0]}")
