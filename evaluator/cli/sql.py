"""`spangrade sql`."""

from __future__ import annotations

from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db, Format, OutputFormat
from spangrade.evaluator.cli.output import database, print_json, print_table


def sql(
    query: Annotated[str, typer.Argument(help="A query over spans, logs, the derived views and the scores.")],
    db: Db = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Query the spans and what is derived from them in SQL; nothing can be written, no file read."""
    with database(db) as opened:
        rows = opened.sql(query)
    if format is Format.JSON:
        print_json(rows.rows())
    else:
        print_table(rows.rows(), rows.columns)
