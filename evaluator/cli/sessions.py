"""`spangrade sessions`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from spangrade.evaluator.cli.options import Printed, Selected, StoredIn
from spangrade.evaluator.cli.output import MAX_LISTED, console, note_origins, warn_not_understood
from spangrade.evaluator.results.session_sort import SessionSort
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import option, values_of
from spangrade.tracer.base.terminal import counted

MAX_SESSIONS = 100  # in a table, which rich lays out as a whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsOptions:
    """Which of the chosen sessions are listed, and in which order."""

    failed: bool = option(False, "Only those whose verdict is failed or broken.")
    stale: bool = option(False, "Only those of which more arrived after their verdict.")
    sort: SessionSort = option(SessionSort.NEWEST, "The order: by start, or the largest or gravest first.")
    limit: int | None = option(
        None, "At most this many.", least=1, metavar="N", shown_default=f"{MAX_SESSIONS}, all as JSON"
    )
    all: bool = option(False, "All of them, line by line.")


def sessions(select: Selected, listed: SessionsOptions, at: StoredIn, printed: Printed) -> None:
    """List the sessions, with the verdict of each: that by a golden question, else the latest.

    They are those of production, or any as long as there is none, unless --where names an origin.
    """
    limit = listed.limit
    if listed.all and limit is not None:
        raise InputError("--all and --limit: expected one of them")
    if limit is None and not listed.all and printed.as_table:
        limit = MAX_SESSIONS
    with at.opened() as opened:
        most = None if limit is None else limit + 1
        chosen = values_of(listed, "failed", "stale", "sort")
        rows = opened.list_sessions(**chosen, limit=most, origin=select.origin, select=select)
        note_origins(opened, select.origin)
        not_understood = opened.not_understood()
    if not printed.as_table:
        printed.write(list(islice(rows, limit)))
    elif listed.all:
        _print_lines(rows)
    else:
        _print_table(list(islice(rows, limit)))
        if limit is not None and len(rows) > limit:
            console().print(f"there are more than {limit}: raise --limit, or list all with --all")
    warn_not_understood(not_understood)


def _print_lines(rows: Iterable[dict[str, Any]]) -> None:
    from spangrade.evaluator.reports.tables import session_lines

    broken = 0

    def noted() -> Iterator[dict[str, Any]]:
        nonlocal broken
        for row in rows:
            broken += row["assembly_error"] is not None
            yield row

    for line in session_lines(noted()):
        sys.stdout.write(f"{line}\n")
    if broken:
        sys.stdout.write(f"{counted(broken, 'session')} could not be assembled: spangrade lint says why\n")


def _print_table(rows: list[dict[str, Any]]) -> None:
    from spangrade.evaluator.reports.tables import cell, sessions_table

    out = console()
    out.print(sessions_table(rows, out.width))
    broken = [row for row in rows if row["assembly_error"]]
    for row in broken[:MAX_LISTED]:
        text = f"{row['session_id']} could not be assembled: {row['assembly_error']}"
        out.print(cell(text, newline=" "))
    if len(broken) > MAX_LISTED:
        out.print(f"and {len(broken) - MAX_LISTED} more that could not be assembled")
