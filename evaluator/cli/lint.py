"""`spangrade lint`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates
from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, OutputFormat, Selected
from spangrade.evaluator.cli.output import database_or_lake, print_json, print_table
from spangrade.tracer.errors import ExitCode
from spangrade.tracer.terminal import print_line, printable

_COLUMNS = ("code", "sessions", "count", "what", "inconclusive", "advice")


def lint(
    gates: Gates,
    select: Selected,
    session: Annotated[str | None, typer.Argument(help="A session's id, or the beginning of one.")] = None,
    db: Db = None,
    lake: LakeCatalog = None,
    dataset: Annotated[
        Path | None,
        typer.Option(
            help="Golden questions: say when each passes, and list what a grade would find inconclusive."
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Processes that look at sessions.", hidden=True),
    ] = 1,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """List what recordings lack, which metrics are inconclusive because of it, and how to fix it.

    Exit codes: 0 nothing to fix, 2 bad input, 4 a metric is inconclusive, or would be for a reference that
    needs it, for a reason that can be fixed.
    """
    if dataset is not None and format is Format.TABLE:
        _explain(dataset)
    with database_or_lake(db, lake, workers) as opened:
        is_any = (dataset, db, lake, session) != (dataset, None, None, None) or opened.path.exists()
        findings = []
        if dataset is None or is_any:
            findings = opened.lint(session, dataset=dataset, gates=gates, select=select)
    if format is Format.JSON:
        print_json(findings)
    elif findings:
        from spangrade.evaluator.reports.findings import by_kind

        print_table(by_kind(findings), _COLUMNS)
    else:
        print_line("nothing is lacking" if dataset is None or is_any else "nothing is recorded yet")
    fixable = any(finding.metrics and finding.advice for finding in findings)
    raise typer.Exit(ExitCode.INCONCLUSIVE if fixable else ExitCode.PASSED)


def _explain(dataset: Path) -> None:
    """Print one sentence for each question: when a session passes it."""
    from spangrade.converters.datasets.formats import find_dataset, read_dataset
    from spangrade.evaluator.reports.question_sentence import passes_if

    path = find_dataset(dataset)[0] if dataset.is_dir() else dataset
    for question in read_dataset(path).questions.golden_questions:
        sys.stdout.write(f"{printable(f'{question.id} {passes_if(question)}', newline=' ')}\n")
