"""`spangrade runs`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, OutputFormat
from spangrade.evaluator.cli.output import database_or_lake, print_json, print_table

_COLUMNS = (
    "run",
    "graded",
    "dataset",
    "sessions",
    "passed",
    "failed",
    "inconclusive",
    "broken",
    "commit",
    "tags",
)
_SHORT = 8  # characters of an id that tell runs apart


def runs(
    db: Db = None,
    lake: LakeCatalog = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="At most this many.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="The rolling runs of `spangrade watch`, one per policy and day.")
    ] = False,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """List the grading runs, the newest first."""
    from spangrade.evaluator.reports.json import stored_run_json

    with database_or_lake(db, lake) as opened:
        listed = [stored_run_json(row) for row in opened.list_runs(limit=limit, watched=watch).rows()]
    if format is Format.JSON:
        print_json(listed)
    else:
        print_table([_shown(row) for row in listed], _COLUMNS)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a run as a row for people."""
    commit = row["git_commit"] and row["git_commit"][:_SHORT] + ("+changes" if row["git_dirty"] else "")
    return {
        **row,
        "run": row["name"] or row["run_id"][:_SHORT],
        "graded": f"{row['graded_at']:%Y-%m-%d %H:%M}",
        "commit": commit,
        "tags": ", ".join(f"{key}={value}" for key, value in row["tags"].items()),
    }
