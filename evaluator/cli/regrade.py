"""`spangrade regrade`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from spangrade import Gates, JudgeOptions
from spangrade.evaluator.cli.options import Graders, Printed, StoredIn
from spangrade.evaluator.cli.output import show
from spangrade.tracer.base.fields import REQUIRED, argument, option


@dataclass(frozen=True, slots=True, kw_only=True)
class RegradeOptions:
    """Which run is graded again, and by which questions."""

    run: str = argument(REQUIRED, "A run's name, the beginning of its id, `latest`, or `branch:NAME`.")
    dataset: Path | None = option(None, "Golden questions in the place of those that the run had.")
    without: tuple[str, ...] = option(
        (), "A metric of the run that is gone, to leave out. Repeat for more.", metavar="METRIC", rare=True
    )
    all: bool = option(False, "List all verdicts that change.")


def regrade(
    gates: Gates, judge: JudgeOptions, again: RegradeOptions, at: StoredIn, by: Graders, printed: Printed
) -> None:
    """Grade the sessions of a run again, without storing it, and show the verdicts that change.

    Exit codes, of the new verdicts: 0 all passed, 1 a session failed, 2 bad input, 3 a metric or judge broke,
    4 inconclusive.
    """
    with at.opened(by.workers) as opened:
        regraded = opened.regrade(
            again.run, dataset=again.dataset, gates=gates, judge=judge, without=again.without
        )
    if printed.as_table:
        from spangrade.evaluator.reports.regraded import regraded_tables

        show(regraded_tables(regraded, every=again.all))
    else:
        printed.write(regraded.to_json(), "changes")
    raise typer.Exit(regraded.run.exit_code)
