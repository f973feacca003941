"""`spangrade regrade`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import (
    Db,
    Format,
    JudgeMaxCalls,
    JudgeMaxCost,
    JudgeModel,
    JudgeThreshold,
    MetricsFiles,
    OutputFormat,
)
from spangrade.evaluator.cli.output import database, print_json, show


def regrade(
    run: Annotated[
        str, typer.Argument(help="A run's name, the beginning of its id, `latest`, or `branch:NAME`.")
    ],
    db: Db = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[>=T]", help="A metric, in the place of the run's of that name."),
    ] = None,
    metrics_file: MetricsFiles = None,
    dataset: Annotated[
        Path | None, typer.Option(help="Golden questions in the place of those that the run had.")
    ] = None,
    no_reference: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A reference that is not a gate, in the place of the run's."),
    ] = None,
    no_references: Annotated[
        bool, typer.Option("--no-references", help="No reference is a gate: only metrics are.")
    ] = False,
    judge_model: JudgeModel = None,
    judge_max_calls: JudgeMaxCalls = None,
    judge_max_cost: JudgeMaxCost = None,
    judge_threshold: JudgeThreshold = None,
    all: Annotated[bool, typer.Option("--all", help="List all verdicts that change.")] = False,  # noqa: A002
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Grade the sessions of a run again, without storing it, and show the verdicts that change.

    Exit codes, of the new verdicts: 0 all passed, 1 a session failed, 2 bad input, 3 a metric or judge broke,
    4 inconclusive.
    """
    with database(db) as opened:
        regraded = opened.regrade(
            run,
            metrics=metric or (),
            metrics_files=metrics_file or (),
            dataset=dataset,
            no_reference=no_reference or (),
            no_references=no_references,
            judge_model=judge_model,
            judge_max_calls=judge_max_calls,
            judge_max_cost=judge_max_cost,
            judge_threshold=judge_threshold,
        )
    if format is Format.JSON:
        print_json(regraded.to_json())
    else:
        from spangrade.evaluator.reports.regraded import regraded_tables

        show(regraded_tables(regraded, every=all))
    raise typer.Exit(regraded.run.exit_code)
