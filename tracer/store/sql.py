"""SQL in files: one statement, view or migration per file; texts in statements without parameters."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import duckdb

_PACKAGE = "spangrade.tracer.store"
_VALUE = re.compile(r"\b(string|Input:) (['\"]).*\2")


@cache
def statement(name: str, package: str = _PACKAGE) -> str:
    """Return the text of `NAME.sql` in a package's folder, by default this one."""
    return (files(package) / f"{name}.sql").read_text(encoding="utf-8")


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Return the changes of older tables as (version, SQL text), oldest first. `schema.sql` has all."""
    folder = files(_PACKAGE) / "migrations"
    found = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple((int(f.name.split("_")[0]), f.read_text(encoding="utf-8")) for f in found)


def text_literal(text: str) -> str:
    """Return a text as SQL writes it, for statements that take no parameters: ATTACH, SET, COPY, COMMENT."""
    return "'" + text.replace("'", "''") + "'"


def error_line(error: Exception) -> str:
    """Return an error of DuckDB in one line, with the names that it suggests.

    A value that cannot be converted may have been recorded: it is not shown.
    """
    if isinstance(error, duckdb.OutOfMemoryException):
        return "DuckDB needs more memory than its limit: raise SPANGRADE_MEMORY_LIMIT, to 4GB for example"
    line = " ".join(str(error).split("\n\n", 1)[0].split())
    # The type of an error is lost where rows are read as a stream.
    return _VALUE.sub(r"\1 …", line) if line.startswith("Conversion Error:") else line
