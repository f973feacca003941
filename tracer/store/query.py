"""Run a query that someone else wrote: one SELECT that reads the database and nothing else, within limits."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import duckdb

from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.memory import MEMORY_LIMIT_VARIABLE
from spangrade.tracer.store import Store
from spangrade.tracer.store.query_rows import Rows
from spangrade.tracer.store.sql import error_line

TIMEOUT_S = 60.0
MAX_ROWS = 1_000_000
MAX_BYTES = 10**9  # of the result, which is kept in memory beside what DuckDB needs

# What DuckDB cannot interrupt (one call of a function over a huge value) may exceed its limit by this much.
GRACE_S = 5.0
_INTERRUPT_EVERY_S = 0.05  # an interrupt that comes before the query starts has no effect

# No comments: one may hide where the statement begins that is explained.
_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s*ANALYZE\b|\s*\(\s*(ANALYZE|FORMAT)\b[\w\s,'\"]*\))?", re.IGNORECASE)


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
