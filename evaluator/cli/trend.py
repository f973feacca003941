"""`spangrade trend`."""

from __future__ import annotations

from typing import Annotated

import typer

from spangrade.evaluator.cli.options import (
    PRODUCTION,
    Db,
    Format,
    LakeCatalog,
    Origin,
    OutputFormat,
    Selected,
)
from spangrade.evaluator.cli.output import database_or_lake, note_origins, print_json, show
from spangrade.evaluator.statistics.trends.by import By


def trend(
    select: Selected,
    metric: Annotated[
        str, typer.Argument(help="`passed`, `cost`, `latency`, `tokens`, or a metric that was measured.")
    ],
    db: Db = None,
    lake: LakeCatalog = None,
    by: Annotated[By, typer.Option(help="What the sessions are grouped by.")] = By.DAY,
    origin: Origin = PRODUCTION,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Show a metric of the stored sessions by day, version, prompt or model, with 95% intervals."""
    with database_or_lake(db, lake) as opened:
        found = opened.trend(metric, by=by, origin=origin, select=select)
        note_origins(opened, origin)
    if format is Format.JSON:
        print_json(found.to_json())
        return
    from spangrade.evaluator.reports.trend import trend_chart

    show(trend_chart(found))
