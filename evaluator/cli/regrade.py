"""`spangrade regrade`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates, JudgeOptions
from spangrade.evaluator.cli.options import Db, Format, GradeWorkers, LakeCatalog, OutputFormat
from spangrade.evaluator.cli.output import database_or_lake, print_json, show

Without = Annotated[
    list[str] | None,
    typer.Option(
        metavar="METRIC", help="A metric of the run that is gone, to leave out. Repeat for more.", hidden=True
    ),
]


def regrade(
    gates: Gates,
    judge: JudgeOptions,
    run: Annotated[
        str, typer.Argument(help="A run's name, the beginning of its id, `latest`, or `branch:NAME`.")
    ],
    db: Db = None,
    lake: LakeCatalog = None,
    dataset: Annotated[
        Path | None, typer.Option(help="Golden questions in the place of those that the run had.")
    ] = None,
    without: Without = None,
    all: Annotated[bool, typer.Option("--all", help="List all verdicts that change.")] = False,  # noqa: A002
    workers: GradeWorkers = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Grade the sessions of a run again, without storing it, and show the verdicts that change.

    Exit codes, of the new verdicts: 0 all passed, 1 a session failed, 2 bad input, 3 a metric or judge broke,
    4 inconclusive.
    """
    with database_or_lake(db, lake, workers) as opened:
        regraded = opened.regrade(run, dataset=dataset, gates=gates, judge=judge, without=without or ())
    if format is Format.JSON:
        print_json(regraded.to_json())
    else:
        from spangrade.evaluator.reports.regraded import regraded_tables

        show(regraded_tables(regraded, every=all))
    raise typer.Exit(regraded.run.exit_code)
