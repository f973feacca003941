"""`spangrade config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from spangrade.evaluator.cli.options import InFile, Printed
from spangrade.evaluator.cli.output import print_table
from spangrade.evaluator.cli.settings import is_given, loaded_settings
from spangrade.tracer.base.canonical_json import dumps


def config(context: typer.Context, at: InFile, printed: Printed) -> None:
    """Show each setting in force and its source: command line, environment variable, file or default.

    See docs/configuration.md.
    """
    loaded = loaded_settings(context)
    rows = setting_rows(context, at.db)
    if not printed.as_table:
        file = None if loaded.file is None else str(loaded.file)
        printed.write({"file": file, "settings": {row.pop("setting"): row for row in rows}}, "settings")
    else:
        texts = [{**row, "value": _text(row["value"])} for row in rows]
        print_table(texts, ("setting", "value", "source"))


def setting_rows(context: typer.Context, db: Path | None) -> list[dict[str, Any]]:
    """Return each setting in force with its source."""
    return [
        {"setting": name, "value": value, "source": where}
        if name != "database" or not is_given(context, "db")
        else {"setting": name, "value": str(db), "source": "--db"}
        for name, value, where in loaded_settings(context).rows()
    ]


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else dumps(value)
