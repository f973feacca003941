"""`spangrade judge`."""

from __future__ import annotations

from typing import Annotated

import typer

from spangrade import Gates, JudgeOptions
from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, OutputFormat, with_groups
from spangrade.evaluator.cli.output import database_or_lake, print_json, show
from spangrade.evaluator.cli.settings import with_config

app = typer.Typer(
    help="Find out whether a judge is right.",
    no_args_is_help=True,
    add_completion=False,  # that of `spangrade` is enough
    pretty_exceptions_enable=False,
)


@app.callback()
def _judge() -> None:  # without it typer makes the one command the whole of `judge`
    """Find out whether a judge is right."""


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
    threshold: Annotated[
        float | None,
        typer.Option(metavar="VALUE", help="What a score needs to pass; else its run's own verdict counts."),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="List all sessions on which they differ.")] = False,  # noqa: A002
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


app.command()(with_config(agreement))
app.command()(with_config(with_groups(check)))
