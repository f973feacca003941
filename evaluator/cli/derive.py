"""`spangrade derive`."""

from __future__ import annotations

from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db, Format, OutputFormat, Workers
from spangrade.evaluator.cli.output import database, print_json
from spangrade.tracer.terminal import counted, print_line


def derive(
    db: Db = None,
    all: Annotated[bool, typer.Option("--all", help="Derive every session again.")] = False,  # noqa: A002
    workers: Workers = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Derive the sessions that are new or out of date; the other commands do so by themselves."""
    with database(db) as opened:
        derived = opened.derive(all=all, workers=workers)
    if format is Format.JSON:
        print_json({"db": str(opened.path), "derived": derived})
    else:
        print_line(f"{counted(derived, 'session')} derived in {opened.path}")
