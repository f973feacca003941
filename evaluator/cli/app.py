"""The commands, put together: each is declared in a module of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from spangrade.evaluator.cli.audit import audit
from spangrade.evaluator.cli.collect import collect
from spangrade.evaluator.cli.compare import compare
from spangrade.evaluator.cli.config import config
from spangrade.evaluator.cli.convert import app as convert
from spangrade.evaluator.cli.delete import delete
from spangrade.evaluator.cli.derive import derive
from spangrade.evaluator.cli.grade import grade
from spangrade.evaluator.cli.import_ import import_
from spangrade.evaluator.cli.judge import app as judge
from spangrade.evaluator.cli.lake import app as lake
from spangrade.evaluator.cli.lint import lint
from spangrade.evaluator.cli.metrics import metrics
from spangrade.evaluator.cli.regrade import regrade
from spangrade.evaluator.cli.review import review
from spangrade.evaluator.cli.runs import runs
from spangrade.evaluator.cli.schema import schema
from spangrade.evaluator.cli.score import label, score
from spangrade.evaluator.cli.sessions import sessions
from spangrade.evaluator.cli.settings import with_config
from spangrade.evaluator.cli.show import show
from spangrade.evaluator.cli.sql import sql
from spangrade.evaluator.cli.trend import trend
from spangrade.evaluator.cli.view import view
from spangrade.evaluator.cli.watch import watch
from spangrade.tracer.file_modes import set_umask

app = typer.Typer(
    name="spangrade",
    help="Grade AI agents from the OpenTelemetry spans they emit.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from spangrade import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # noqa: ARG001 (its callback prints it)
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
    umask: Annotated[
        str | None,
        typer.Option(
            envvar="SPANGRADE_UMASK",
            metavar="OCTAL",
            help="What others may not do with new files: 077 unless given, 027 lets the group read.",
        ),
    ] = None,
) -> None:
    set_umask(umask)


app.command("import")(with_config(import_))
for command in (
    grade,
    sessions,
    show,
    runs,
    compare,
    audit,
    trend,
    regrade,
    view,
    score,
    label,
    review,
    lint,
    sql,
    derive,
    collect,
    watch,
    schema,
    delete,
    metrics,
    config,
):
    app.command()(with_config(command))
app.add_typer(convert, name="convert")
app.add_typer(judge, name="judge")
app.add_typer(lake, name="lake")
