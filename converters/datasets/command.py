"""What the commands that convert share, run as `spangrade convert …` or as a script of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import typer

from spangrade.tracer.errors import ExitCode, InputError, SpangradeError
from spangrade.tracer.span import Problem

T = TypeVar("T")


def finish(summary: str, problems: Sequence[Problem] = ()) -> None:
    """Print what came of a conversion, and on standard error what could not be used or was odd.

    Raises SystemExit with 2 if anything was left out.
    """
    for problem in problems:
        print(f"spangrade: {problem.where}: {problem.message}", file=sys.stderr)
    lost = sum(problem.dropped for problem in problems)
    print(f"{summary}; {lost} left out" if lost else summary)
    if lost:
        raise SystemExit(ExitCode.BAD_INPUT)


def sorted_out(records: Iterable[T | Problem]) -> tuple[list[T], list[Problem]]:
    """Return what could be used and what could not."""
    found: list[T] = []
    problems: list[Problem] = []
    for record in records:
        if isinstance(record, Problem):
            problems.append(record)
        else:
            found.append(record)
    return found, problems


def tags(pairs: Iterable[str]) -> dict[str, str]:
    """Return `key:value` texts as a mapping. Raises InputError for one without a key or a colon."""
    found = {}
    for pair in pairs:
        key, colon, value = pair.partition(":")
        if not colon or not key:
            raise InputError(f'--metadata "{pair}": right is key:value')
        found[key] = value
    return found


def run_script(command: Callable[..., Any]) -> None:
    """Run one command as a script; what spangrade refuses is a line on standard error and an exit code."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(command)
    try:
        app()
    except SpangradeError as error:
        print(f"spangrade: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
