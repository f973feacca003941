"""`spangrade judge`."""

from __future__ import annotations

from typing import Annotated

import typer

from spangrade import Gates, JudgeOptions
from spangrade.evaluator.cli.options import (
    Db,
    Format,
    LakeCatalog,
    Only,
    OutputFormat,
    WithDefault,
    with_groups,
)
from spangrade.evaluator.cli.output import database_or_lake, print_json, show
from spangrade.evaluator.cli.settings import with_config

_Threshold = Annotated[
    float | None,
    typer.Option(metavar="VALUE", help="What a score needs to pass; else its run's own verdict counts."),
]
_All = Annotated[bool, typer.Option("--all", help="List all sessions on which they differ.")]

app = typer.Typer(
    cls=WithDefault,
    help="Find out whether a judge is right.",
    add_completion=False,  # that of `spangrade` is enough
    pretty_exceptions_enable=False,
)


def judge(
    gates: Annotated[Gates, Only("metrics_files")],
    judge: JudgeOptions,
    metric: Annotated[
        str,
        typer.Argument(
            metavar="METRIC",
            help="The metric that is compared with labels; passed: the verdict of a session.",
        ),
    ],
    db: Db = None,
    lake: LakeCatalog = None,
    again: Annotated[
        bool, typer.Option("--again", help="Ask the judge again about the labelled sessions: did it drift?")
    ] = False,
    threshold: _Threshold = None,
    all: _All = False,  # noqa: A002
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Compare the verdicts of a metric with people's labels, and correct its pass rate for its errors.

    With --again the judge is asked anew. Exit codes: 0 for a report, 2 bad input, 4 fewer than 20 sessions
    have a verdict and a label.
    """
    if again:
        check(gates, judge, metric, db, lake, all, format)
    else:
        agreement(metric, db, lake, threshold, all, format)


def agreement(
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The metric, of rules or judged, that is compared with labels; passed: the verdict.",
        ),
    ],
    db: Db = None,
    lake: LakeCatalog = None,
    threshold: _Threshold = None,
    all: _All = False,  # noqa: A002
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Compare the verdicts of a metric with people's labels, and correct its pass rate for its errors.

    Exit codes: 0 for a report, 2 bad input, 4 fewer than 20 sessions have a verdict and a label.
    """
    with database_or_lake(db, lake) as opened:
        compared = opened.judge_agreement(metric, threshold=threshold)
    from spangrade.evaluator.reports.agreement import agreement_json, agreement_tables

    if format is Format.JSON:
        print_json(agreement_json(compared))
    else:
        show(agreement_tables(compared, every=all))


def check(
    gates: Gates,
    judge: JudgeOptions,
    measure: Annotated[
        str,
        typer.Argument(
            metavar="METRIC", help="The metric whose labelled sessions the judge is asked about again."
        ),
    ],
    db: Db = None,
    lake: LakeCatalog = None,
    all: Annotated[bool, typer.Option("--all", help="List all sessions with another verdict.")] = False,  # noqa: A002
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Ask the judge again about sessions that people labelled: whether it drifted, and how it is calibrated.

    Exit codes: 0 for a report, 2 bad input, 4 fewer than 20 sessions have a label and a verdict.
    """
    with database_or_lake(db, lake) as opened:
        checked = opened.check_judge(measure, gates=gates, judge=judge)
    from spangrade.evaluator.reports.agreement import check_tables

    if format is Format.JSON:
        print_json(checked.to_json())
    else:
        show(check_tables(checked, every=all))


app.command("it")(with_config(with_groups(judge)))
app.command(hidden=True)(with_config(agreement))
app.command(hidden=True)(with_config(with_groups(check)))
