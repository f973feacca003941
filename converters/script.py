"""The common part of the scripts of this folder and `spangrade convert`: to run and to report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from spangrade.tracer.base.command_exit import leave, open_outputs
from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.terminal import print_line, warn
from spangrade.tracer.span import Problem


def report(summary: str, problems: Sequence[Problem] = ()) -> None:
    """Print the result of a conversion and, on standard error, its problems.

    Raises SystemExit with 2 if it left anything out.
    """
    for problem in problems:
        warn(f"{problem.where}: {problem.message}")
    dropped = sum(problem.dropped for problem in problems)
    print_line(f"{summary}; {dropped} left out" if dropped else summary)
    if dropped:
        raise SystemExit(ExitCode.BAD_INPUT)


def run_script(command: Callable[..., Any]) -> None:
    """Run one command as a script; whatever goes wrong is a line on standard error and an exit code."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command(cls=_Script)(command)
    open_outputs()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (any other end is Python's traceback)
        leave(error)


class _Script(TyperCommand):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (EOFError, KeyboardInterrupt, OSError) as error:  # typer would end some of them with 1
            leave(error)
