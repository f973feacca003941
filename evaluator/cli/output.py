"""Printing: a table for people, JSON alone for programs, progress for whoever waits at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from spangrade.tracer.canonical_json import dumps

_PATIENCE_S = 2.0


def console() -> Console:
    """Return a console on standard output; piped, it does not wrap at 80 columns."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def print_json(value: Any) -> None:
    """Print a value as JSON, and nothing else."""
    sys.stdout.buffer.write(f"{dumps(value, indent=True)}\n".encode())
    sys.stdout.flush()


def print_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str | None = None) -> None:
    """Print rows as a table; numbers stand to the right."""
    rows = list(rows)
    table = Table(title=title, title_justify="left")
    for column in columns:
        number = any(isinstance(row[column], int | float) for row in rows)
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(row[column]) for column in columns))
    console().print(table)


def cell(value: Any) -> Text:
    """Return a value as a cell's text: what agents said may hold markup and control characters."""
    if value is None:
        return Text("–", "dim")
    if isinstance(value, float):
        value = f"{value:.6g}"
    if not isinstance(value, str):
        value = dumps(value) if isinstance(value, list | tuple | dict) else str(value)
    return Text(
        "".join(
            letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}"
            for letter in value
        )
    )


def warn(message: str) -> None:
    """Print one line on standard error."""
    print(f"spangrade: {message}", file=sys.stderr)


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show that something is under way, at a terminal and once it has taken two seconds."""
    if not sys.stderr.isatty():
        yield
        return
    from threading import Timer

    shown = Progress(
        SpinnerColumn(), TextColumn(what), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    )
    shown.add_task(what, total=None)
    timer = Timer(_PATIENCE_S, shown.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        shown.stop()
