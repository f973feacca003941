"""`spangrade compare`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from spangrade.evaluator.cli.options import Every, Printed, Selected, StoredIn
from spangrade.evaluator.cli.output import show, show_comparison
from spangrade.evaluator.statistics.by import ComparedBy
from spangrade.tracer.base.fields import REQUIRED, argument, option, values_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What is compared."""

    first: str = argument(
        REQUIRED,
        "A run: its name, the beginning of its id, `latest`, `branch:NAME`, or what `grade --out` wrote. "
        "Or sessions: a condition in SQL, as in \"agent_version = '1.4'\".",
    )
    second: str = argument(REQUIRED, "What to compare with it.")
    by: ComparedBy | None = option(
        None, "FIRST and SECOND are two versions of the agent, two prompts, or two models."
    )
    metrics: tuple[str, ...] = option(
        (), "Compare only this metric; repeat it for more.", name="--metric", metavar="NAME"
    )
    fail_if: tuple[str, ...] = option(
        (),
        "A condition: 'worse', 'regressed > 0', 'passed worse by 5 points', 'cost worse by 5%'; repeatable.",
        metavar="'METRIC worse by MARGIN'",
    )
    min_compared: float | None = option(
        None,
        "Exit 4 if fewer of the questions can be compared.",
        metavar="SHARE",
        least=0,
        most=1,
    )
    allow_changed_questions: bool = option(
        False, "Compare although references, gates, versions of metrics or the judge are not the same."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOutput:
    """What is made of a comparison."""

    inconclusive_ok: bool = option(False, "Exit 0 if the data do not settle a condition.")
    out: Path | None = option(None, "A folder for comparison.json, comparison.md and comparison.junit.xml.")


def compare(
    select: Selected,
    sides: CompareOptions,
    outcome: ComparisonOutput,
    at: StoredIn,
    every: Every,
    printed: Printed,
) -> None:
    """Compare two runs, or two selections of sessions: what got better or worse, and what flipped.

    With --all also why sessions of the second run failed, as `show RUN` has it.

    Exit codes: 0 without conditions or if all hold, 1 one does not hold, 2 bad input, 4 the data do not
    settle one.
    """
    from spangrade.evaluator.statistics.comparison.sample_files import folder_of_run

    with at.opened() as opened:
        compared = opened.compare(**values_of(sides), select=select)
        # Why sessions of the second run failed, against those that pass in it and in the first; of a run that
        # was read from files, the sessions are not at hand.
        runs = [
            None if one.run_id is None or folder_of_run(one.run_id) else one.run_id
            for one in compared.comparison[:2]
        ]
        failures = opened.explain(runs[1], baseline=runs[0], select=select) if every.all and runs[1] else None
    from spangrade.evaluator.reports.clusters import cluster_json, explained

    code = compared.exit_code(inconclusive_ok=outcome.inconclusive_ok)
    if outcome.out is not None:
        from spangrade.evaluator.reports.comparison import write_comparison

        write_comparison(compared, outcome.out, stored=opened.stored)
    if printed.as_table:
        show_comparison(opened, compared, code, every=every.all)
        if failures:
            show(explained(failures))
    else:
        from spangrade.evaluator.reports.comparison import comparison_json

        known = None if failures is None else list(map(cluster_json, failures))
        more = {"failures": known} if every.all else {}
        printed.write({**comparison_json(*compared), **more}, "metrics")
    raise typer.Exit(code)
