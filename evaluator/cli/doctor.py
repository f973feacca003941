"""`spangrade doctor`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from spangrade.evaluator.cli.config import setting_rows
from spangrade.evaluator.cli.options import Db, Format, OutputFormat
from spangrade.evaluator.cli.output import database, print_json, print_table
from spangrade.evaluator.cli.settings import loaded_settings


def doctor(
    context: typer.Context,
    db: Db = None,
    all: Annotated[bool, typer.Option("--all", help="List every setting, those with defaults too.")] = False,  # noqa: A002
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Show on one screen what is installed, stored and reachable, and what the instrumentation lacks.

    Settings that are not defaults are listed with their source: command line, environment or file.
    """
    loaded = loaded_settings(context)
    settings = [row for row in setting_rows(context, db) if all or row["source"] != "default"]
    with database(db) as opened:
        checked = opened.examine(loaded.file, os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"))
    if format is Format.JSON:
        print_json({"checked": [one._asdict() for one in checked], "settings": settings})
        return
    print_table([one._asdict() for one in checked], ("what", "state", "advice"))
    if settings:
        print_table([{**row, "value": str(row["value"])} for row in settings], ("setting", "value", "source"))
