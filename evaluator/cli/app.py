"""The commands, put together: each is declared in a module of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from spangrade.evaluator.cli.commands import COMMANDS, help_text
from spangrade.evaluator.cli.declare import command_of, with_example
from spangrade.evaluator.cli.gone import refuse_command, refuse_option
from spangrade.evaluator.cli.settings import setting_of
from spangrade.tracer.base.command_exit import leave
from spangrade.tracer.base.errors import InputError, one_line
from spangrade.tracer.base.file_modes import set_umask
from spangrade.tracer.base.plugins import plugin_named

_GROUP = "spangrade.commands"  # of what apps and other packages bring
_UsageError: Any = typer.BadParameter.__base__  # typer exports only this one of its errors of usage


@contextmanager
def _short_usage_errors() -> Iterator[None]:
    """Shorten what typer quotes of the arguments, of which it would print all; refuse options that went."""
    try:
        yield
    except _UsageError as error:
        if flag := getattr(error, "option_name", None):
            command = _words(error.ctx)
            refuse_option(command, flag, setting_of(command, flag))
        error.message = one_line(error.message)
        raise


def _words(context: Any) -> str:
    """Return the words of a command below the program's own name, whatever started it."""
    return "" if context.parent is None else f"{_words(context.parent)} {context.info_name}".strip()


class _Commands(TyperGroup):
    """The commands, each of which is imported and built when it is looked up."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (typer's signature)
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # If there is no such command, the names of all are compared with it.
        for name in (cmd_name,) if cmd_name in COMMANDS or plugin_named(_GROUP, cmd_name) else COMMANDS:
            if name not in self.commands:
                self.add_command(_built(name), name)
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (typer's signature)
        formatter.write(help_text())

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _short_usage_errors():
            return super().make_context(*arguments, **more)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        refuse_command(args)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _short_usage_errors():
                return super().invoke(ctx)
        except (EOFError, KeyboardInterrupt, OSError) as error:  # typer would end some of them with 1
            leave(error)


def load(name: str) -> Any:
    """Import a command; return its function or, of a group, its application.

    Raises InputError for one of an app of which the installation does not know.
    """
    known = COMMANDS.get(name)
    if known is None or known.of_app:
        if (plugin := plugin_named(_GROUP, name)) is None:
            raise InputError(f"{name}: this installation is older than its checkout: pip install -e . again")
        return plugin.load()
    module, _, attribute = (known.where or f"{name}:{name}").partition(":")
    return getattr(import_module(f"spangrade.evaluator.cli.{module}"), attribute)


@cache  # a process that runs many commands, as the tests do, builds each once
def _built(name: str) -> Any:
    command = load(name)
    example = COMMANDS[name].example if name in COMMANDS else f"spangrade {name}"
    if isinstance(command, typer.Typer):
        built: Any = get_command(command)
        built.name = name
    else:
        built = command_of(command, name)
    _give_examples(built, f"spangrade {name}", example)
    return built


def _give_examples(command: Any, words: str, example: str) -> None:
    """Give a command an example, and each under it that is listed: the known one, else what it requires."""
    for name, one in getattr(command, "commands", {}).items():
        if not one.hidden:
            _give_examples(one, f"{words} {name}", example)
    if not hasattr(command, "commands"):
        required = (one for one in command.params if one.required)
        more = (
            one.metavar if one.param_type_name == "argument" else f"{one.opts[0]} {one.metavar or 'VALUE'}"
            for one in required
        )
        with_example(command, example if example.startswith(words) else " ".join([words, *more]))


app = typer.Typer(
    name="spangrade",
    cls=_Commands,
    help="Grade AI agents from the OpenTelemetry spans they emit.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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
