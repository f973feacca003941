"""`spangrade doctor`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import typer

from spangrade.evaluator.cli.options import Printed, Readers, StoredIn
from spangrade.evaluator.cli.output import print_table
from spangrade.evaluator.cli.settings import is_given, loaded_settings
from spangrade.tracer.base.fields import option
from spangrade.tracer.base.terminal import counted, print_line


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What is listed."""

    all: bool = option(False, "List every setting, those with defaults too.")
    derive_all: bool = option(False, "Derive every session again instead, from its stored spans.")


def doctor(
    context: typer.Context, examined: DoctorOptions, at: StoredIn, by: Readers, printed: Printed
) -> None:
    """Show on one screen what is installed, stored and reachable, and what the instrumentation lacks.

    Settings that are not defaults are listed with their source: command line, environment or file.
    """
    if examined.derive_all:
        with at.opened() as opened:
            derived = opened.derive(all=True, workers=by.workers)
        if printed.as_table:
            print_line(f"{counted(derived, 'session')} derived in {opened.path}")
        else:
            printed.write({"db": str(opened.path), "derived": derived})
        return
    loaded = loaded_settings(context)
    settings = [row for row in _setting_rows(context, at) if examined.all or row["source"] != "default"]
    with at.opened() as opened:
        checked = opened.examine(loaded.file, os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"))
    if not printed.as_table:
        printed.write({"checked": [one._asdict() for one in checked], "settings": settings}, "checked")
        return
    print_table([one._asdict() for one in checked], ("what", "state", "advice"))
    if any(one.what == "instrumentation" for one in checked):
        print_line("all that recordings lack, and how to fix it: spangrade lint")
    if settings:
        print_table([{**row, "value": str(row["value"])} for row in settings], ("setting", "value", "source"))


def _setting_rows(context: typer.Context, at: StoredIn) -> list[dict[str, Any]]:
    """Return each setting in force with its source."""
    return [
        {"setting": name, "value": value, "source": where}
        if name != "database" or not is_given(context, "db")
        else {"setting": name, "value": str(at.db), "source": "--db"}
        for name, value, where in loaded_settings(context).rows()
    ]
