"""`spangrade show`."""

from __future__ import annotations

from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, OutputFormat, SessionId
from spangrade.evaluator.cli.output import console, database_or_lake, print_json


def show(
    session: SessionId,
    db: Db = None,
    lake: LakeCatalog = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Show what an agent did in one session, the verdict of the latest grade, and scores from elsewhere."""
    with database_or_lake(db, lake) as opened:
        stored, grade, given = opened.graded_session(session)
    if format is Format.JSON:
        from spangrade.evaluator.reports.json import external_score_json, session_json

        external = [external_score_json(score) for score in given]
        print_json({**session_json(stored), "grade": grade and grade.to_json(), "external_scores": external})
        return
    from spangrade.evaluator.reports.session_text import session_text

    out = console()
    for part in session_text(stored, grade, given):
        out.print(part)
