"""Tables in files: Parquet, DuckDB and CSV, as lists of rows. A row is a JSON object."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import orjson

from spangrade.tracer.base.errors import InputError, SpangradeError
from spangrade.tracer.base.json_text import BadItem
from spangrade.tracer.store import untrusted
from spangrade.tracer.store.sql import error_line, statement, text_literal

ROWS = 1_000  # that are read at once; a span with messages has about 2 kB
_FETCH = 16  # rows between two looks at their size: some have megabytes
_BYTES = 16 * 2**20  # of text in the rows that are read at once
_MEMORY = "500MB"  # of what DuckDB keeps of a file; the database that the rows go to has its own
_SLICE = 128  # rows that are selected at once where 2,048 do not fit in that
_PAGE = 2**20
_TOO_LARGE = f"expected rows and row groups of which {_MEMORY} hold some"
Rows = list[dict[str, Any]]
_COLUMNS_OF_SPANS = (
    "SELECT column_name FROM duckdb_columns() WHERE database_name = 'store' AND table_name = 'spans'"
)
_MAX_FIELD = 2**31 - 1  # bytes; the limit of the module is of the whole process
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")  # as `bytes.decode` escapes it

_PLAIN = frozenset(
    (
        *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "BOOLEAN", "VARCHAR"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE"),
    )
)
_AS_TEXT = ("DATE", "TIME", "ENUM", "UUID", "INTERVAL", "BIT")


class Table(NamedTuple):
    """A table of a file: its name, empty in a file of one table, and its rows in portions."""

    name: str
    portions: Iterator[Rows]


def is_parquet(head: bytes) -> bool:
    """Return whether a file that begins like this is Parquet."""
    return head.startswith(b"PAR1")


def is_duckdb(head: bytes) -> bool:
    """Return whether a file that begins like this is a DuckDB database."""
    return head[8:12] == b"DUCK"


def read_parquet(path: Path) -> Iterator[Table]:
    """Yield the table of a Parquet file. Raises InputError if it cannot be read."""
    file = text_literal(str(path))
    with closing(untrusted.connect_to_read(path, memory_limit=_MEMORY)) as connection:
        rows = _portions(
            connection,
            f"FROM read_parquet({file})",
            f"FROM read_parquet({file}, file_row_number = true)",
            "file_row_number",
        )
        yield Table("", _unless_broken(path, rows, partial(_parquet_by_page, connection, path)))


def read_duckdb(path: Path) -> Iterator[Table]:
    """Yield the tables of a database. Raises InputError if it cannot be read.

    Columns that are computed when they are read are left out: the file says how, and they can have any size.
    """
    try:
        connected = untrusted.connect(path, confined=True, memory_limit=_MEMORY)
    except (duckdb.Error, SpangradeError) as error:
        raise InputError(f"{path}: a DuckDB database that cannot be opened: {error_line(error)}") from None
    with closing(connected):
        connection = connected.connection
        columns = {name for (name,) in connection.execute(_COLUMNS_OF_SPANS).fetchall()}
        if "attribute_ids" in columns:
            viewer = statement("otel_desktop_viewer", __package__)
            yield Table("spans", _unless_broken(path, _portions(connection, f"FROM ({viewer})")))
            return
        for schema, name in connection.execute(statement("tables", __package__)).fetchall():
            table = f'store."{schema}"."{name}"'
            rows = _portions(
                connection, f"FROM {table}", f"FROM {table}", "rowid", stored=_stored(connection, table)
            )
            yield Table(name, _unless_broken(path, rows))


def read_csv(lines: Iterable[bytes]) -> Iterator[Rows | BadItem]:
    """Yield the rows of a CSV file in portions; their values are texts, or None if a field is empty."""
    csv.field_size_limit(_MAX_FIELD)
    reader = csv.DictReader((line.decode(errors="surrogateescape") for line in lines), restkey="")
    rows: Rows = []
    number = 0
    try:
        for number, row in enumerate(reader):
            if any(isinstance(value, str) and _NOT_UTF_8.search(value) for value in row.values()):
                yield rows
                yield BadItem(f"[{number}]", "not UTF-8")
                rows = []
                continue
            rows.append({key: value or None for key, value in row.items()})
            if len(rows) == ROWS:
                yield rows
                rows = []
    except csv.Error as error:
        yield rows
        yield BadItem(f"[{number + 1}]", f"not CSV: {error}")
    else:
        yield rows


def columns_of_csv(line: bytes) -> dict[str, Any] | None:
    """Return a row without values under the names in a CSV file's first line; None if it is not one."""
    try:
        names = next(csv.reader([line.decode()]), [])
    except (csv.Error, UnicodeDecodeError):
        return None
    return dict.fromkeys(names) if len(names) > 1 else None


def _unless_broken(
    path: Path, portions: Iterator[Rows], otherwise: Callable[[int], Iterator[Rows]] | None = None
) -> Iterator[Rows]:
    """Yield portions; from the first rows on that do not fit in memory, those that `otherwise` reads.

    Raises InputError.
    """
    done = 0
    try:
        try:
            for rows in portions:
                yield rows
                done += len(rows)
        except duckdb.OutOfMemoryException:
            if otherwise is None:
                raise
            yield from otherwise(done)
    except duckdb.OutOfMemoryException:
        raise InputError(f"{path}: after row {done}, rows that do not fit in memory: {_TOO_LARGE}") from None
    except duckdb.Error as error:
        raise InputError(f"{path}: a table that cannot be read: {error_line(error)}") from None


def _stored(connection: duckdb.DuckDBPyConnection, table: str) -> set[str]:
    """Return the columns of a table that are stored; there are none if it has no rows."""
    query = f"SELECT DISTINCT column_name FROM pragma_storage_info({text_literal(table)})"  # noqa: S608 (a literal)
    rows = connection.execute(query)
    return {name for (name,) in rows.fetchall()}


def _portions(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    numbered: str = "",
    number: str = "",
    stored: Collection[str] | None = None,
) -> Iterator[Rows]:
    """Yield the rows of a source, all its columns or those that are stored.

    DuckDB reads 2,048 rows at once, whatever is asked for. If they do not fit in memory, they are selected by
    the `number` that they have in `numbered`, fewer and fewer of them. That reads a part of the file again.
    """
    types = [
        (name, kind)
        for name, kind, *_ in connection.execute(f"DESCRIBE {source}").fetchall()
        if stored is None or name in stored
    ]
    if not types:
        return
    select = f"SELECT {', '.join(_selected(name, kind) for name, kind in types)}"
    done = 0
    try:
        for rows in _rows(connection.execute(f"{select} {source}"), types):
            yield rows
            done += len(rows)
        return
    except duckdb.OutOfMemoryException:
        if not number or any(name == number for name, _ in types):
            raise
    # Numbers have gaps where rows were deleted.
    last = connection.execute(f"SELECT max({number}) {numbered}").fetchall()[0][0]
    skipped = connection.execute(f"SELECT {number} {numbered} LIMIT 1 OFFSET {done}").fetchall()
    first, size = (skipped[0][0] if skipped else last + 1), _SLICE
    while first <= last:
        query = f"{select} {numbered} WHERE {number} BETWEEN {first} AND {first + size - 1}"
        try:
            portions = list(_rows(connection.execute(query), types))
        except duckdb.OutOfMemoryException:
            if size == 1:
                raise
            size //= 2
            continue
        yield from portions
        first += size


def _rows(result: duckdb.DuckDBPyConnection, types: Sequence[tuple[str, str]]) -> Iterator[Rows]:
    """Yield the rows of a query in portions of at most `ROWS`, or of fewer that reach `_BYTES`."""
    names = [name for name, _ in types]
    of_json = {name for name, kind in types if _is_json(kind)}
    portion: Rows = []
    size = 0
    while rows := result.fetchmany(_FETCH):
        size += sum(len(value) for row in rows for value in row if isinstance(value, str))
        portion += [_row(names, row, of_json) for row in rows]
        if len(portion) >= ROWS or size >= _BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _parquet_by_page(connection: duckdb.DuckDBPyConnection, path: Path, done: int) -> Iterator[Rows]:
    """Yield the rows of a Parquet file after `done`, page by page, which DuckDB cannot; pyarrow can."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InputError(
            f"{path}: rows that do not fit in memory: {_TOO_LARGE}, or pip install pyarrow"
        ) from None
    try:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=_PAGE) as file:
            for batch in file.iter_batches(_FETCH, use_threads=False):
                first, done = min(done, batch.num_rows), max(done - batch.num_rows, 0)
                connection.register("batch", batch.slice(first))
                yield from _portions(connection, "FROM batch")
                connection.unregister("batch")
    except (ArrowException, OSError) as error:
        raise InputError(f"{path}: a table that cannot be read: {type(error).__name__}") from None


def _selected(name: str, kind: str) -> str:
    column = '"' + name.replace('"', '""') + '"'
    if kind in _PLAIN:
        return column
    if kind.startswith("TIMESTAMP") and not kind.endswith("]"):
        return f"epoch_ns({column})"
    if kind.startswith("DECIMAL") and not kind.endswith("]"):
        return f"{column}::DOUBLE"
    if kind == "BLOB":
        return f"lower(hex({column}))"
    return f"{column}::VARCHAR" if not _is_json(kind) else f"to_json({column})::VARCHAR"


def _is_json(kind: str) -> bool:
    """Return whether a column of this type is read as JSON."""
    scalar = kind in _PLAIN or kind == "BLOB" or kind.startswith((*_AS_TEXT, "TIMESTAMP", "DECIMAL"))
    return not scalar or kind.endswith("]")


def _row(names: Sequence[str], row: Sequence[Any], of_json: set[str]) -> dict[str, Any]:
    return {name: _value(value) if name in of_json else value for name, value in zip(names, row, strict=True)}


def _value(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
