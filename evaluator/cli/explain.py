"""`spangrade explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, OutputFormat, Selected
from spangrade.evaluator.cli.output import database_or_lake, print_json, show


def explain(
    select: Selected,
    run: Annotated[
        str | None,
        typer.Argument(
            help="A run: its name, the beginning of its id, or `latest`; without, all sessions as they are "
            "graded now."
        ),
    ] = None,
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
    """Show why sessions failed, those that failed alike together, and what tells them from those that pass.

    What tells them apart is what Fisher's exact test finds in more of them than chance explains: of all that
    is shown at most 5% is expected to be chance (Benjamini and Hochberg).
    """
    with database_or_lake(db, lake) as opened:
        found = opened.explain(run, what, baseline=baseline, select=select)
    from spangrade.evaluator.reports.clusters import cluster_json, explained

    if format is Format.JSON:
        print_json(list(map(cluster_json, found)))
    else:
        show(explained(found))
