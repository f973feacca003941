"""The store: one DuckDB file that holds spans and logs as they came.

Figures that shaped it (60,000 spans of 1.8 kB, two cores, DuckDB 2.0): Arrow through nanoarrow 160
thousand spans a second, one JSON document a batch 30, lists unnested 50 (1 on DuckDB 1.5).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import duckdb
import nanoarrow as na

from spangrade.tracer.errors import StoreError, StoreLockedError
from spangrade.tracer.jsontext import dumps
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.sql import migrations, statement

# Row groups of 8,192 and batches that are a whole multiple of them skip the write-ahead log. The size is not
# kept in the file: it is given at every ATTACH.
BATCH = 8192

_TEXT, _INTEGER = na.string(), na.int64()
_JSON_COLUMNS = frozenset({"attributes", "events", "links", "resource", "body"})
_SPAN_TYPES = {name: _INTEGER if name in {"start_ns", "end_ns"} else _TEXT for name in Span._fields}
_LOG_TYPES = {name: _INTEGER if name == "time_ns" else _TEXT for name in LogRecord._fields}


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
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False) -> Self:
        """Open a database, made (unless `read_only`) or brought up to this version's schema if need be.

        Raises StoreLockedError if another process is writing it, StoreError if it cannot be used.
        """
        path = Path(path)
        if read_only and not path.exists():
            raise StoreError(f"{path}: no such database: import spans first, or name another with --db")
        connection = duckdb.connect(":memory:")
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
        spans = logs = duplicates = 0
        for batch in _batches(records, BATCH):
            fresh_spans = list(
                {(r.trace_id, r.span_id): r for r in reversed(batch) if isinstance(r, Span)}.values()
            )
            fresh_spans.reverse()
            some_logs = [r for r in batch if isinstance(r, LogRecord)]
            try:
                with self._lock, self.transaction():
                    new_spans = self._insert("insert_spans", fresh_spans, _SPAN_TYPES, "start_ns")
                    new_logs = self._insert("insert_logs", some_logs, _LOG_TYPES, "time_ns")
            except duckdb.Error as error:
                raise StoreError(f"{self.path}: cannot write: {error}") from error
            spans, logs = spans + new_spans, logs + new_logs
            duplicates += len(batch) - new_spans - new_logs
        return Added(spans, logs, duplicates)

    def _insert(
        self, name: str, records: Sequence[Span | LogRecord], types: dict[str, Any], time_column: str
    ) -> int:
        if not records:
            return 0
        times = [getattr(record, time_column) for record in records]
        bounds = {"first": min(times), "last": max(times)}
        inserted = self.query(statement(name), bounds, incoming=arrow_rows(records, types))
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
        return StoreLockedError(
            f"{path}: another process is writing this database: try again when it is done"
        )
    if "not a valid DuckDB database" in text:
        return StoreError(f"{path}: not a DuckDB database: name another file with --db")
    if "newer version" in text:
        return StoreError(f"{path}: written by a newer DuckDB: upgrade the duckdb package")
    return StoreError(f"{path}: cannot open: {text.splitlines()[0]}")
