"""`spangrade show`."""

from __future__ import annotations

from spangrade.evaluator.cli.options import Db, Format, OutputFormat, SessionId
from spangrade.evaluator.cli.output import console, database, print_json


def show(
    session: SessionId,
    db: Db = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Show what an agent did in one session."""
    with database(db) as opened:
        stored = opened.session(session)
    if format is Format.JSON:
        from spangrade.evaluator.reports.json import session_json

        print_json(session_json(stored))
        return
    from spangrade.evaluator.reports.tables import session_lines

    out = console()
    for parts in session_lines(stored):
        out.print(*parts)
