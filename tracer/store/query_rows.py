"""The rows of a query, in memory, as `Database.sql()` and `Run.scores` return them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib.util import find_spec
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import duckdb
import nanoarrow as na

from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store.sql import error_line

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


_STREAM_FAILED = re.compile(r"^ArrowArrayStream::\w+\(\) failed \(\d+\): ")

_SHOWN = 50  # rows, in a notebook
_LONGEST = 200  # characters of a cell there


class Rows:
    """Rows in memory, kept as Arrow: they hold no database open, and can be converted any number of times.

    `columns` are the columns' names; a name that occurs twice gets a number, as in `a`, `a_2`.
    """

    def __init__(self, schema: na.Schema, chunks: Sequence[na.Array]) -> None:
        self._schema = schema
        self._chunks = [chunk for chunk in chunks if len(chunk)]
        self.columns = _distinct([field.name for field in schema.fields])

    @classmethod
    def of(
        cls,
        relation: duckdb.DuckDBPyRelation,
        *,
        max_rows: float = float("inf"),
        max_bytes: float = float("inf"),
    ) -> Rows:
        """Read all rows of a relation, whose connection has `arrow_lossless_conversion` set.

        Raises duckdb.Error if the query fails, InputError if the rows are too many or too large.
        """
        chunks: list[na.Array] = []
        rows = size = 0
        try:
            with na.ArrayStream(relation) as stream:
                for chunk in stream.iter_chunks():
                    rows, size = rows + len(chunk), size + _size(chunk)
                    if rows > max_rows:
                        raise InputError(f"more than {max_rows:,} rows: aggregate, or add a LIMIT")
                    if size > max_bytes:
                        raise InputError(f"more than {max_bytes / 1e6:,.0f} MB: select less, or add a LIMIT")
                    chunks.append(chunk)
                return cls(stream.schema, chunks)
        except RuntimeError as error:  # nanoarrow's, around DuckDB's own text
            raise duckdb.Error(_STREAM_FAILED.sub("", str(error))) from error

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries of Python values; JSON values are texts."""
        with self._relation() as relation:
            return [dict(zip(self.columns, row, strict=True)) for row in relation.fetchall()]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame. Raises InputError if pandas is not installed."""
        _require("to_pandas", "pandas")
        with self._relation() as relation:
            return relation.df()

    def to_polars(self) -> polars.DataFrame:
        """Return a polars data frame. Raises InputError if polars is not installed."""
        _require("to_polars", "polars")
        import polars

        with self._relation() as relation:
            return polars.DataFrame(na.Array(na.ArrayStream(relation)))

    def to_arrow(self) -> pyarrow.Table:
        """Return an Arrow table. Raises InputError if pyarrow is not installed."""
        _require("to_arrow", "pyarrow")
        import pyarrow

        with self._relation() as relation:
            return pyarrow.table(relation)

    @contextmanager
    def _relation(self) -> Iterator[duckdb.DuckDBPyRelation]:
        """Let a DuckDB of its own read the rows: it knows how to convert each type."""
        names = ", ".join(
            f"#{number} AS {_quoted(name)}" for number, name in enumerate(self.columns, start=1)
        )
        connection = duckdb.connect(":memory:")
        try:
            schema = None if self._chunks else self._schema
            connection.register("incoming", na.Array.from_chunks(self._chunks, schema))
            yield connection.sql(f"SELECT {names} FROM incoming")  # noqa: S608 (quoted names)
        except duckdb.Error as error:  # a type that needs a package: TIMESTAMPTZ pytz
            raise InputError(f"SQL: {error_line(error)}") from error
        finally:
            connection.close()

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __repr__(self) -> str:
        return f"<{len(self)} rows: {', '.join(self.columns)}>"

    def df(self) -> pandas.DataFrame:
        """Return a pandas data frame, as `duckdb` names it."""
        return self.to_pandas()

    def pl(self) -> polars.DataFrame:
        """Return a polars data frame, as `duckdb` names it."""
        return self.to_polars()

    def _repr_html_(self) -> str:
        """Return the first rows as a table for a notebook."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        rows = self.rows()
        body = "".join(
            f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row.values())}</tr>"
            for row in rows[:_SHOWN]
        )
        more = f"<p>and {len(rows) - _SHOWN:,} more rows</p>" if len(rows) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: Any) -> str:
    text = "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def _size(array: na.Array) -> int:
    """Return the bytes that an array holds."""
    own = sum(int(buffer.size_bytes) for buffer in array.buffers)
    return own + sum(map(_size, array.iter_children()))


def _distinct(names: Sequence[str]) -> list[str]:
    distinct: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        distinct[next(one for one in chain([name], numbered) if one not in distinct)] = None
    return list(distinct)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _require(method: str, package: str) -> None:
    if find_spec(package) is None:
        raise InputError(f"{method}() needs {package}: pip install {package}")
