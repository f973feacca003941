"""`spangrade sql`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, OutputFormat
from spangrade.evaluator.cli.output import database_or_lake, print_json, print_table
from spangrade.tracer.errors import ExitCode
from spangrade.tracer.terminal import warn

_TIMEOUT_S = 60.0


def sql(
    query: Annotated[str, typer.Argument(help="A query over spans, logs, the derived views and the scores.")],
    db: Db = None,
    lake: LakeCatalog = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, max=86_400, help="Stop the query after this time.")
    ] = _TIMEOUT_S,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Query the spans and what is derived from them in SQL: one SELECT, or EXPLAIN of one.

    Nothing can be written, and no file read. It needs at most SPANGRADE_MEMORY_LIMIT (1GB) of memory, and
    returns at most 1,000,000 rows.
    """

    def give_up() -> None:
        warn(f"--timeout: stopped after {timeout:g} s: select less, or raise the limit")
        os._exit(ExitCode.BAD_INPUT)  # nothing was written, and the function that runs cannot be interrupted

    from spangrade.tracer.store.query import bounded_memory

    with database_or_lake(db, lake) as opened, bounded_memory():
        rows = opened.sql(query, timeout_s=timeout, on_overrun=give_up)
    if format is Format.JSON:
        print_json(rows.rows())
    else:
        print_table(rows.rows(), rows.columns)
