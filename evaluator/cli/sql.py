"""`spangrade sql`."""

from __future__ import annotations

import os
from dataclasses import dataclass

from spangrade.evaluator.cli.options import Printed, StoredIn
from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.fields import REQUIRED, argument, option
from spangrade.tracer.base.terminal import warn


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlOptions:
    """What is queried, and for how long."""

    query: str = argument(REQUIRED, "A query over spans, logs, the derived views and the scores.")
    timeout_s: float = option(
        60.0, "Stop the query after this time.", name="--timeout", metavar="SECONDS", least=0.1, most=86_400
    )


def sql(asked: SqlOptions, at: StoredIn, printed: Printed) -> None:
    """Query the spans and what is derived from them in SQL: one SELECT, or EXPLAIN of one.

    Nothing can be written, and no file read. It needs at most SPANGRADE_MEMORY_LIMIT (1GB) of memory, and
    returns at most 1,000,000 rows.
    """

    def give_up() -> None:
        warn(f"--timeout: stopped after {asked.timeout_s:g} s: select less, or raise the limit")
        os._exit(ExitCode.BAD_INPUT)  # nothing was written, and the function that runs cannot be interrupted

    from spangrade.tracer.base.memory import bounded_memory

    with at.opened() as opened, bounded_memory():
        rows = opened.sql(asked.query, timeout_s=asked.timeout_s, on_overrun=give_up)
    printed.write_rows(rows.rows(), rows.columns)
