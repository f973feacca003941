"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


Db = Annotated[
    Path | None,
    typer.Option(
        "--db", envvar="SPANGRADE_DB", help="The DuckDB file of the spans.", show_default="spangrade.duckdb"
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", help="A table, or JSON alone on standard output.")]
MetricsFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE",
        help="Metrics of your own: definitions.json, a query.sql, module.py.",
    ),
]
SessionId = Annotated[str, typer.Argument(help="A session's id, or the beginning of one.")]
