"""`spangrade sessions`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, OutputFormat
from spangrade.evaluator.cli.output import (
    MAX_LISTED,
    console,
    database_or_lake,
    print_json,
    warn_not_understood,
)
from spangrade.evaluator.grading.session_list import SessionSort


def sessions(
    db: Db = None,
    lake: LakeCatalog = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only those that missed a gate in their latest grade.")
    ] = False,
    sort: Annotated[
        SessionSort, typer.Option(help="The order: by start, or the largest or gravest first.")
    ] = SessionSort.START,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="At most this many.")] = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """List the sessions, with the verdict of the latest grade."""
    with database_or_lake(db, lake) as opened:
        rows = opened.list_sessions(failed=failed, sort=sort, limit=None if limit is None else limit + 1)
        not_understood = opened.not_understood()
    listed = rows.rows()[:limit]
    if format is Format.JSON:
        print_json(listed)
    else:
        _print_table(listed)
        if len(rows) > len(listed):
            console().print("there are more: raise --limit")
    warn_not_understood(not_understood)


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
