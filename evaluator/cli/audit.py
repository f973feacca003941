"""`spangrade audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates, JudgeOptions, Selection
from spangrade.evaluator.audit.options import Mutants
from spangrade.evaluator.cli.options import Db, Format, GradeWorkers, LakeCatalog, OutputFormat
from spangrade.evaluator.cli.output import database_or_lake, print_json, print_lines, show


def audit(
    gates: Gates,
    select: Selection,
    judge: JudgeOptions,
    mutants: Mutants,
    dataset: Annotated[
        Path, typer.Argument(help="Golden JSON, a folder of it and its spans, or what `grade` takes.")
    ],
    db: Db = None,
    lake: LakeCatalog = None,
    spans: Annotated[
        list[Path] | None,
        typer.Option(help="Recorded spans to import and audit; without, all stored sessions are audited."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write what is proposed into the golden file.")
    ] = False,
    all: Annotated[bool, typer.Option("--all", help="List all survivors and questions.")] = False,  # noqa: A002
    out: Annotated[
        Path | None, typer.Option(help="A folder for audit.json, audit.md and golden.diff.")
    ] = None,
    workers: GradeWorkers = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Break sessions that pass, and see which defects the golden dataset and its gates notice.

    No agent is run, and nothing is saved. A judge is asked only if --judge-model names it. Exit codes: 0
    audited, 2 bad input, 4 no session could be audited.
    """
    with database_or_lake(db, lake, workers) as opened:
        audited = opened.audit(
            dataset,
            spans=spans or (),
            gates=gates,
            select=select,
            judge=judge,
            mutants=mutants,
            write=write,
            out=out,
        )
    from spangrade.evaluator.audit.printed import audit_json, audit_tables

    if format is Format.JSON:
        print_json(audit_json(audited))
    else:
        show(audit_tables(audited, every=all))
        print_lines(audited.diff)
    raise typer.Exit(audited.exit_code)
