"""`spangrade sessions`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, ListedOrigin, OutputFormat, Selected
from spangrade.evaluator.cli.output import (
    MAX_LISTED,
    console,
    database_or_lake,
    note_origins,
    print_json,
    warn_not_understood,
)
from spangrade.evaluator.grading.session_sort import SessionSort
from spangrade.tracer.errors import InputError
from spangrade.tracer.terminal import counted

MAX_SESSIONS = 100  # in a table, which rich lays out as a whole


def sessions(
    select: Selected,
    db: Db = None,
    lake: LakeCatalog = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only those whose verdict is failed or broken.")
    ] = False,
    stale: Annotated[
        bool, typer.Option("--stale", help="Only those of which more arrived after their verdict.")
    ] = False,
    sort: Annotated[
        SessionSort, typer.Option(help="The order: by start, or the largest or gravest first.")
    ] = SessionSort.START,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="At most this many.", show_default=f"{MAX_SESSIONS}, all as JSON"
        ),
    ] = None,
    origin: ListedOrigin = None,
    all: Annotated[bool, typer.Option("--all", help="All of them, line by line.")] = False,  # noqa: A002
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """List the sessions, with the verdict of each: that by a golden question, else the latest."""
    if all and limit is not None:
        raise InputError("--all and --limit: expected one of them")
    if limit is None and not all and format is Format.TABLE:
        limit = MAX_SESSIONS
    with database_or_lake(db, lake) as opened:
        most = None if limit is None else limit + 1
        rows = opened.list_sessions(
            failed=failed, stale=stale, sort=sort, limit=most, origin=origin, select=select
        )
        note_origins(opened, origin)
        not_understood = opened.not_understood()
    if format is Format.JSON:
        print_json(list(islice(rows, limit)))
    elif all:
        _print_lines(rows)
    else:
        _print_table(list(islice(rows, limit)))
        if limit is not None and len(rows) > limit:
            console().print(f"there are more than {limit}: raise --limit, or list all with --all")
    warn_not_understood(not_understood)


def _print_lines(rows: Iterable[dict[str, Any]]) -> None:
    from spangrade.evaluator.reports.tables import session_lines

    broken = 0

    def noted() -> Iterator[dict[str, Any]]:
        nonlocal broken
        for row in rows:
            broken += row["assembly_error"] is not None
            yield row

    for line in session_lines(noted()):
        sys.stdout.write(f"{line}\n")
    if broken:
        sys.stdout.write(f"{counted(broken, 'session')} could not be assembled: spangrade lint says why\n")


def _print_table(rows: list[dict[str, Any]]) -> None:
    from spangrade.evaluator.reports.tables import cell, sessions_table

    out = console()
    out.print(sessions_table(rows, out.width))
    broken = [row for row in rows if row["assembly_error"]]
    for row in broken[:MAX_LISTED]:
        text = f"{row['session_id']} could not be assembled: {row['assembly_error']}"
        out.print(cell(text, newline=" "))
    if len(broken) > MAX_LISTED:
        out.print(f"and {len(broken) - MAX_LISTED} more that could not be assembled")
