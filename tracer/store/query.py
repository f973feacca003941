"""Run a query that someone else wrote: one SELECT that reads the database and nothing else, within limits.

Its rows are in memory, as `Database.sql()` and `Run.scores` return them.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib.util import find_spec
from itertools import chain, count
from types import FrameType
from typing import TYPE_CHECKING, Any

import duckdb
import nanoarrow as na

from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.memory import MEMORY_LIMIT_VARIABLE
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import error_line

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

TIMEOUT_S = 60.0
MAX_ROWS = 1_000_000
MAX_BYTES = 10**9  # of the result, which is kept in memory beside what DuckDB needs

# What DuckDB cannot interrupt (one call of a function over a huge value) may exceed its limit by this much.
GRACE_S = 5.0
_INTERRUPT_EVERY_S = 0.05  # an interrupt that comes before the query starts has no effect

# No comments: one may hide where the statement begins that is explained.
_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s*ANALYZE\b|\s*\(\s*(ANALYZE|FORMAT)\b[\w\s,'\"]*\))?", re.IGNORECASE)
_STREAM_FAILED = re.compile(r"^ArrowArrayStream::\w+\(\) failed \(\d+\): ")

_SHOWN = 50  # rows, in a notebook
_LONGEST = 200  # characters of a cell there


def select(
    store: Store,
    text: str,
    *,
    where: str = "SQL",
    limited_by: str | None = None,
    timeout_s: float = TIMEOUT_S,
    max_rows: int = MAX_ROWS,
    on_overrun: Callable[[], None] | None = None,
) -> Rows:
    """Return the rows of a query: one SELECT (also WITH, DESCRIBE, SHOW, SUMMARIZE), or EXPLAIN of one.

    The store must be open with `confined`. Raises InputError, whose text begins with `where`, for any other
    statement, if DuckDB refuses it, or if it takes longer than `timeout_s`, needs more memory than
    SPANGRADE_MEMORY_LIMIT, or returns more than `max_rows` or MAX_BYTES. `on_overrun` is called from another
    thread if it still runs GRACE_S after its time; without it, the caller waits.
    """
    with _select(store, text, where, timeout_s, on_overrun, limited_by) as relation:
        return Rows.of(relation, max_rows=max_rows, max_bytes=MAX_BYTES)


def columns_of(store: Store, text: str, *, where: str = "SQL") -> list[str]:
    """Return the names of a query's columns without running it; raise InputError as `select` does."""
    with _select(store, text, where, TIMEOUT_S) as relation:
        return list(relation.columns)


@contextmanager
def _select(
    store: Store,
    text: str,
    where: str,
    timeout_s: float,
    on_overrun: Callable[[], None] | None = None,
    limited_by: str | None = None,
) -> Iterator[duckdb.DuckDBPyRelation]:
    """Give a query that runs when it is read, in a transaction that cannot write."""
    connection = store.connection
    with _time_limit(connection, timeout_s, on_overrun) as expired:
        try:
            check_one_select(connection, text)
            connection.execute("BEGIN TRANSACTION READ ONLY")
            try:
                yield connection.sql(text)
            finally:
                connection.execute("ROLLBACK")
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        except duckdb.Error as error:
            reason = error_line(error)
            if expired.is_set():
                reason = f"stopped after {timeout_s:g} s: select less"
                if limited_by is not None:
                    raise FieldError(limited_by, f"{reason}, or raise the limit") from None
            elif isinstance(error, duckdb.OutOfMemoryException):
                reason = f"needs more memory than the limit: select less, or raise {MEMORY_LIMIT_VARIABLE}"
            raise InputError(f"{where}: {reason}") from error


def check_one_select(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Raise InputError unless a text is one SELECT, or EXPLAIN of one, to DuckDB's parser."""
    statements = connection.extract_statements(text)
    if len(statements) == 1 and statements[0].type == duckdb.StatementType.EXPLAIN:
        # EXPLAIN ANALYZE runs what it explains, a COPY too.
        found = _EXPLAIN.match(statements[0].query)
        statements = connection.extract_statements(statements[0].query[found.end() :]) if found else []
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InputError("expected EXPLAIN of one SELECT")
        return
    if len(statements) == 1 and statements[0].type == duckdb.StatementType.SELECT:
        return
    if re.search(r"\bPIVOT\b", text, re.IGNORECASE):
        raise InputError("expected one SELECT; a PIVOT is one if it names its values: ON x IN (…)")
    if len(statements) == 1:
        raise InputError(f"expected a SELECT, found {statements[0].type.name}")
    raise InputError(f"expected one SELECT, found {len(statements) or 'no'} statements")


@contextmanager
def _time_limit(
    connection: duckdb.DuckDBPyConnection, timeout_s: float, on_overrun: Callable[[], None] | None
) -> Iterator[threading.Event]:
    """Interrupt a connection's query after a time or at Ctrl-C; give an event that is set then."""
    done, expired, pressed, over = (threading.Event() for _ in range(4))

    def watch() -> None:
        if not over.wait(timeout_s):
            expired.set()
        for _ in range(round(GRACE_S / _INTERRUPT_EVERY_S)):
            if done.is_set():
                return
            connection.interrupt()
            done.wait(_INTERRUPT_EVERY_S)
        if on_overrun is not None and not done.is_set():
            on_overrun()

    def press() -> None:
        pressed.set()
        over.set()

    watcher = threading.Thread(target=watch, name="spangrade-sql-timeout", daemon=True)
    watcher.start()
    try:
        with _at_ctrl_c(press):
            yield expired
    except Exception:
        if not pressed.is_set():
            raise
    finally:
        done.set()
        over.set()
        watcher.join()
    if pressed.is_set():
        raise KeyboardInterrupt


@contextmanager
def _at_ctrl_c(press: Callable[[], None]) -> Iterator[None]:
    """Call a function at Ctrl-C: DuckDB 2 may lose the exception that Python raises while a query runs."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return

    def pressed(number: int, frame: FrameType | None) -> None:
        press()
        handler(number, frame)

    signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


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
