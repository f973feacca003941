"""`spangrade doctor`."""

from __future__ import annotations

import os
from dataclasses import dataclass

import typer

from spangrade.evaluator.cli.config import setting_rows
from spangrade.evaluator.cli.options import InFile, Printed
from spangrade.evaluator.cli.output import print_table
from spangrade.evaluator.cli.settings import loaded_settings
from spangrade.tracer.base.fields import option


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What is listed."""

    all: bool = option(False, "List every setting, those with defaults too.")


def doctor(context: typer.Context, examined: DoctorOptions, at: InFile, printed: Printed) -> None:
    """Show on one screen what is installed, stored and reachable, and what the instrumentation lacks.

    Settings that are not defaults are listed with their source: command line, environment or file.
    """
    loaded = loaded_settings(context)
    rows = setting_rows(context, at.db)
    settings = [row for row in rows if examined.all or row["source"] != "default"]
    with at.opened() as opened:
        checked = opened.examine(loaded.file, os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"))
    if not printed.as_table:
        printed.write({"checked": [one._asdict() for one in checked], "settings": settings}, "checked")
        return
    print_table([one._asdict() for one in checked], ("what", "state", "advice"))
    if settings:
        print_table([{**row, "value": str(row["value"])} for row in settings], ("setting", "value", "source"))
