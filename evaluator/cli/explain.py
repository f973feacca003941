"""`spangrade explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, OutputFormat, Selected
from spangrade.evaluator.cli.output import database_or_lake, print_json, show


def explain(
    select: Selected,
    run: Annotated[str, typer.Argument(help="A run: its name, the beginning of its id, or `latest`.")],
    what: Annotated[
        str, typer.Argument(help="A part of what went wrong, such as the name of a tool; without it, all.")
    ] = "",
    baseline: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="A run whose passing sessions those of RUN are held against, too."),
    ] = None,
    db: Db = None,
    lake: LakeCatalog = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Show why sessions of a run failed, those that failed alike together, and where they part."""
    with database_or_lake(db, lake) as opened:
        found = opened.explain(run, what, baseline=baseline, select=select)
    from spangrade.evaluator.reports.clusters import cluster_json, explained

    if format is Format.JSON:
        print_json(list(map(cluster_json, found)))
    else:
        show(explained(found))
