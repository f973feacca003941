"""The commands, put together: each is declared in a module of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from spangrade.evaluator.cli.not_on_a_lake import INSTEAD, without_lake
from spangrade.evaluator.cli.options import with_groups
from spangrade.evaluator.cli.settings import with_config
from spangrade.tracer.command_exit import leave
from spangrade.tracer.errors import one_line
from spangrade.tracer.file_modes import set_umask

# In the order of `spangrade --help`, each as MODULE:NAME: only the module of the called command is imported.
COMMANDS: Mapping[str, str] = {
    "init": "init:init",
    "demo": "demo:demo",
    "doctor": "doctor:doctor",
    "import": "import_:import_",
    "grade": "grade:grade",
    "run": "run:run",
    "sessions": "sessions:sessions",
    "show": "show:show",
    "runs": "runs:runs",
    "compare": "compare:compare",
    "explain": "explain:explain",
    "audit": "audit:audit",
    "trend": "trend:trend",
    "regrade": "regrade:regrade",
    "view": "view:view",
    "score": "score:score",
    "label": "score:label",
    "review": "review:review",
    "lint": "lint:lint",
    "sql": "sql:sql",
    "derive": "derive:derive",
    "collect": "collect:collect",
    "watch": "watch:watch",
    "schema": "schema:schema",
    "delete": "delete:delete",
    "metrics": "metrics:metrics",
    "config": "config:config",
    "convert": "convert:app",
    "judge": "judge:app",
    "lake": "lake:app",
}


_UsageError: Any = typer.BadParameter.__base__  # typer exports only this one of its errors of usage


@contextmanager
def _short_usage_errors() -> Iterator[None]:
    """Shorten what typer quotes of the arguments, of which it would print all."""
    try:
        yield
    except _UsageError as error:
        error.message = one_line(error.message)
        raise


class _Commands(TyperGroup):
    """The commands, each of which is imported and built when it is looked up."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (typer's signature)
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # If there is no such command, the names of all are compared with it.
        for name in (cmd_name,) if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.add_command(_built(name), name)
        return super().get_command(ctx, cmd_name)

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _short_usage_errors():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _short_usage_errors():
                return super().invoke(ctx)
        except (EOFError, KeyboardInterrupt, OSError) as error:  # typer would end some of them with 1
            leave(error)


def load(name: str) -> Any:
    """Import a command; return its function or, of a group, its application."""
    module, _, attribute = COMMANDS[name].partition(":")
    return getattr(import_module(f"spangrade.evaluator.cli.{module}"), attribute)


def _built(name: str) -> Any:
    command = load(name)
    if not isinstance(command, typer.Typer):
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        command = with_groups(command)
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
