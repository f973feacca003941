"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DB = Annotated[Path, typer.Option("--db", envvar="SPANGRADE_DB", help="The DuckDB file of the spans.")]
DEFAULT_DB = Path("spangrade.duckdb")
