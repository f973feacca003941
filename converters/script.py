"""What the scripts of this folder and `spangrade convert` share: they run and report alike."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

from spangrade.tracer.errors import ExitCode, SpangradeError
from spangrade.tracer.span import Problem
from spangrade.tracer.terminal import print_line, warn


def report(summary: str, problems: Sequence[Problem] = ()) -> None:
    """Print what a conversion did and, on standard error, what it left out or found odd.

    Raises SystemExit with 2 if it left anything out.
    """
    for problem in problems:
        warn(f"{problem.where}: {problem.message}")
    dropped = sum(problem.dropped for problem in problems)
    print_line(f"{summary}; {dropped} left out" if dropped else summary)
    if dropped:
        raise SystemExit(ExitCode.BAD_INPUT)


def run_script(command: Callable[..., Any]) -> None:
    """Run one command as a script; an error of spangrade's is a line on standard error and an exit code."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(command)
    try:
        app()
    except SpangradeError as error:
        warn(str(error))
        sys.exit(error.exit_code)
