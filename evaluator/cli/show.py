"""`spangrade show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, OutputFormat, SessionId
from spangrade.evaluator.cli.output import console, database_or_lake, print_json, print_table


def show(
    session: SessionId,
    db: Db = None,
    lake: LakeCatalog = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
    why: Annotated[
        bool, typer.Option("--why", help="List the session's spans, and why each counts or does not.")
    ] = False,
) -> None:
    """Show what an agent did in one session, the verdict of the latest grade, and scores from elsewhere."""
    if why:
        _show_why(session, db, lake, format)
        return
    with database_or_lake(db, lake) as opened:
        stored, grade, given = opened.graded_session(session)
    if format is Format.JSON:
        from spangrade.evaluator.reports.json import external_score_json

        external = [external_score_json(score) for score in given]
        print_json({**stored.to_json(), "grade": grade and grade.to_json(), "external_scores": external})
        return
    from spangrade.evaluator.reports.session_text import session_text

    out = console()
    for part in session_text(stored, grade, given):
        out.print(part)


def _show_why(session: str, db: Path | None, lake: str | None, format: Format) -> None:  # noqa: A002
    from spangrade.evaluator.reports.why import why_json, why_rows

    with database_or_lake(db, lake) as opened:
        readings = opened.why(session)
    if format is Format.JSON:
        print_json(why_json(readings))
    else:
        print_table(why_rows(readings), ("span", "span_id", "read_as", "counts_as", "why"))
