"""Options whose value is a secret: it comes from a file or a variable, since others see the command line."""

from __future__ import annotations

from pathlib import Path

import typer

from spangrade.evaluator.cli.settings import is_given
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.terminal import warn


def secret(context: typer.Context, name: str, value: str | None, file: Path | None) -> str | None:
    """Return the secret that the option `name` or its file gives, and warn of one on the command line.

    Raises InputError if the file has not one line of text, or if both are given.
    """
    if is_given(context, name):
        warn(f"--{name} shows a secret in the list of processes: use --{name}-file")
        if file is not None:
            raise InputError(f"--{name} and --{name}-file: give one of them")
    if file is None:
        return value or None
    try:
        lines = file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(lines) != 1:
        raise InputError(f"{file}: expected one line with the value of --{name}")
    return lines[0]
