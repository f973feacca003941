"""`spangrade grade`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates, GradeSpec, JudgeOptions, Selection
from spangrade.evaluator.cli.options import (
    AllMetrics,
    Db,
    Format,
    GradeWorkers,
    LakeCatalog,
    OutputFormat,
    option_of,
)
from spangrade.evaluator.cli.output import database_or_lake, print_json, show_run
from spangrade.evaluator.cli.regrade import Without, regrade
from spangrade.evaluator.reports.kinds import Report


def grade(
    gates: Gates,
    select: Selection,
    judge: JudgeOptions,
    dataset: Annotated[
        Path | None,
        typer.Argument(
            help="Golden JSON, a folder of it and its spans, an ADK eval set, a simulation's CSV or JSONL; "
            "without, the stored sessions are graded by --metric alone."
        ),
    ] = None,
    db: Db = None,
    lake: LakeCatalog = None,
    spans: Annotated[
        list[Path] | None,
        typer.Option(help="Recorded spans to import and grade; without, all stored sessions are graded."),
    ] = None,
    name: Annotated[str | None, option_of(GradeSpec, "name")] = None,
    tag: Annotated[list[str] | None, option_of(GradeSpec, "tags")] = None,
    group_by: Annotated[str | None, option_of(GradeSpec, "group_by")] = None,
    idle: Annotated[str | None, option_of(GradeSpec, "idle_s")] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="With --of-run: store nothing, and show the verdicts of that run that would change.",
        ),
    ] = False,
    without: Without = None,
    all: Annotated[bool, typer.Option("--all", help="Print all that is known, not ten lines.")] = False,  # noqa: A002
    all_metrics: AllMetrics = False,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the reports (HTML, JSON, CSV, JUnit, Markdown).")
    ] = None,
    reports: Annotated[
        str,
        typer.Option(
            metavar="KIND,…",
            help=f"Which reports: {', '.join(Report)}; json is written with any.",
            show_default="all",
            hidden=True,
        ),
    ] = ",".join(Report),
    workers: GradeWorkers = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Grade stored sessions against a golden dataset or, without one, by gates alone.

    Exit codes: 0 all passed, 1 a session failed, 2 bad input, 3 a metric or judge broke, 4 inconclusive.
    """
    if dry_run:
        if select.of_run is None or replace(select, of_run=None) != Selection() or spans:
            raise typer.BadParameter("it grades a run again: expected --of-run RUN, and no other sessions")
        regrade(gates, judge, select.of_run, db, lake, dataset, without, all, workers, format)
    spec = GradeSpec.of(dataset, gates, select, judge, name, tag, group_by, idle)
    with database_or_lake(db, lake, workers) as opened:
        graded = opened.grade(spec, spans=spans or (), out=out, reports=reports)
    if format is Format.JSON:
        from spangrade.evaluator.reports.json import run_json

        print_json(run_json(graded))
    else:
        show_run(opened, graded, every=all or all_metrics)
    raise typer.Exit(graded.exit_code)
