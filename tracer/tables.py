"""Tables in files: Parquet, DuckDB and CSV, as lists of rows. A row is a JSON object."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import orjson

from spangrade.tracer.errors import InputError, SpangradeError
from spangrade.tracer.json_text import BadItem
from spangrade.tracer.store import untrusted
from spangrade.tracer.store.sql import statement, text_literal

ROWS = 1_000  # that are read at once; a span with messages has about 2 kB, and some have megabytes
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
    with closing(untrusted.connect_to_read(path)) as connection:
        yield Table("", _portions(connection, path, f"FROM read_parquet({text_literal(str(path))})"))


def read_duckdb(path: Path) -> Iterator[Table]:
    """Yield the tables of a database. Raises InputError if it cannot be read."""
    try:
        connection = untrusted.connect(path, confined=True)
    except (duckdb.Error, SpangradeError) as error:
        raise InputError(f"{path}: a DuckDB database that cannot be opened: {_reason(error)}") from None
    with closing(connection):
        columns = {name for (name,) in connection.execute(_COLUMNS_OF_SPANS).fetchall()}
        if "attribute_ids" in columns:
            viewer = statement("otel_desktop_viewer", __package__)
            yield Table("spans", _portions(connection, path, f"FROM ({viewer})"))
            return
        for schema, name in connection.execute(statement("tables", __package__)).fetchall():
            yield Table(name, _portions(connection, path, f'FROM store."{schema}"."{name}"'))


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


def _portions(connection: duckdb.DuckDBPyConnection, path: Path, source: str) -> Iterator[Rows]:
    try:
        types = [(name, kind) for name, kind, *_ in connection.execute(f"DESCRIBE {source}").fetchall()]
        selected = ", ".join(_selected(name, kind) for name, kind in types)
        names = [name for name, _ in types]
        of_json = {name for name, kind in types if _is_json(kind)}
        result = connection.execute(f"SELECT {selected} {source}")
        while rows := result.fetchmany(ROWS):
            yield [_row(names, row, of_json) for row in rows]
    except duckdb.Error as error:
        raise InputError(f"{path}: a table that cannot be read: {_reason(error)}") from None


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


def _reason(error: Exception) -> str:
    """Return the reason of an error in one line."""
    return str(error).splitlines()[0]
