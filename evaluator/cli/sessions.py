"""`spangrade sessions`."""

from __future__ import annotations

from spangrade.evaluator.cli.options import Db, Format, OutputFormat
from spangrade.evaluator.cli.output import database, print_json, print_table, warn_not_understood

_COLUMNS = (
    "session_id",
    "question_id",
    "started_at",
    "turns",
    "agents",
    "tool_calls",
    "llm_calls",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "total_s",
    "errors",
)


def sessions(db: Db = None, format: OutputFormat = Format.TABLE) -> None:  # noqa: A002 (the option's name)
    """List the sessions."""
    with database(db) as opened:
        rows, not_understood = opened.list_sessions(), opened.not_understood()
    if format is Format.JSON:
        print_json(rows.rows())
    else:
        listed = rows.rows()
        marks = [name for name in ("not_understood", "assembly_error") if any(row[name] for row in listed)]
        print_table(listed, (*_COLUMNS, *marks))
    warn_not_understood(not_understood)
