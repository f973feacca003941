"""The commands, put together: each is declared in a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

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
from spangrade.evaluator.cli.not_on_a_lake import INSTEAD, without_lake
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

# In the order of `spangrade --help`.
COMMANDS: Mapping[str, Callable[..., None] | typer.Typer] = {
    "import": import_,
    "grade": grade,
    "sessions": sessions,
    "show": show,
    "runs": runs,
    "compare": compare,
    "audit": audit,
    "trend": trend,
    "regrade": regrade,
    "view": view,
    "score": score,
    "label": label,
    "review": review,
    "lint": lint,
    "sql": sql,
    "derive": derive,
    "collect": collect,
    "watch": watch,
    "schema": schema,
    "delete": delete,
    "metrics": metrics,
    "config": config,
    "convert": convert,
    "judge": judge,
    "lake": lake,
}


class _Commands(TyperGroup):
    """The commands, each of which is built when it is looked up: all of them take a tenth of a start."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (typer's signature)
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # If there is no such command, the names of all are compared with it.
        for name in (cmd_name,) if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.add_command(_built(name), name)
        return super().get_command(ctx, cmd_name)


def _built(name: str) -> Any:
    command = COMMANDS[name]
    if not isinstance(command, typer.Typer):
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        refused = without_lake(command, name) if name in INSTEAD else command
        alone.command(name)(with_config(refused))
        return get_command(alone)
    group = get_command(command)
    group.name = name
    return group


app = typer.Typer(
    name="spangrade",
    cls=_Commands,
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
