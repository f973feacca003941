"""`spangrade compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import AllMetrics, Db, Format, LakeCatalog, OutputFormat, Selected
from spangrade.evaluator.cli.output import database_or_lake, print_json, show_comparison
from spangrade.evaluator.statistics.comparison.by import ComparedBy

_SIDE = (
    "A run: its name, the beginning of its id, `latest`, `branch:NAME`, or what `grade --out` wrote. "
    "Or sessions: a condition in SQL, as in \"agent_version = '1.4'\"."
)


def compare(
    select: Selected,
    first: Annotated[str, typer.Argument(metavar="FIRST", help=_SIDE)],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="What to compare with it.")],
    db: Db = None,
    lake: LakeCatalog = None,
    by: Annotated[
        ComparedBy | None,
        typer.Option(help="FIRST and SECOND are two versions of the agent, two prompts, or two models."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Compare only this metric; repeat it for more.")
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'METRIC worse by MARGIN'",
            help="A gate: 'worse', 'broken > 0', 'passed worse by 5 points', 'cost worse by 5%'; repeatable.",
        ),
    ] = None,
    min_compared: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="Exit 4 if fewer of the questions can be compared.",
            hidden=True,
        ),
    ] = None,
    allow_changed_questions: Annotated[
        bool,
        typer.Option(
            "--allow-changed-questions",
            help="Compare although references, gates, versions of metrics or the judge are not the same.",
        ),
    ] = False,
    inconclusive_ok: Annotated[
        bool, typer.Option("--inconclusive-ok", help="Exit 0 if the data do not settle a gate.", hidden=True)
    ] = False,
    all: Annotated[bool, typer.Option("--all", help="Print all that is known, not ten lines.")] = False,  # noqa: A002
    all_metrics: AllMetrics = False,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for comparison.json, comparison.md and comparison.junit.xml."),
    ] = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Compare two runs, or two selections of sessions: what got better or worse, and what flipped.

    Exit codes: 0 without gates or if all pass, 1 a gate failed, 2 bad input, 4 the data do not settle a gate.
    """
    with database_or_lake(db, lake) as opened:
        compared = opened.compare(
            first,
            second,
            by=by,
            metrics=metric or (),
            fail_if=fail_if or (),
            min_compared=min_compared,
            allow_changed_questions=allow_changed_questions,
            select=select,
        )
    code = compared.exit_code(inconclusive_ok=inconclusive_ok)
    if out is not None:
        from spangrade.evaluator.reports.comparison_files import write_comparison

        write_comparison(compared, out, stored=opened.stored)
    if format is Format.JSON:
        from spangrade.evaluator.reports.comparison import comparison_json

        print_json(comparison_json(*compared))
    else:
        show_comparison(opened, compared, code, every=all or all_metrics)
    raise typer.Exit(code)
