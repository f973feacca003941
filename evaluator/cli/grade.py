"""`spangrade grade`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates, GradeSpec, JudgeOptions, Selection
from spangrade.evaluator.cli.declare import Only
from spangrade.evaluator.cli.options import Every, Graders, Printed, StoredIn
from spangrade.evaluator.cli.output import sent_scores, show, show_run, show_sent
from spangrade.evaluator.reports.kinds import Report
from spangrade.evaluator.results.scores_to import ScoresTo
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import OWN, argument, option, values_of

# What is said of a run, beside what is graded and by what.
RunNote = Annotated[GradeSpec, Only("name", "tags", "group_by", "idle_s")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeOptions:
    """What is graded, and where reports are written."""

    dataset: Path | None = argument(
        None,
        "Golden JSON, a folder of it and its spans, an ADK eval set, a simulation's CSV or JSONL; "
        "without, the stored sessions are graded by --metric alone.",
    )
    spans: tuple[Path, ...] = option(
        (), "Recorded spans to import and grade; without, all stored sessions are graded."
    )
    dry_run: bool = option(
        False, "With --of-run: store nothing, and show the verdicts of that run that would change."
    )
    without: tuple[str, ...] = option(
        (), "A metric of the run that is gone, to leave out. Repeat for more.", metavar="METRIC", setting=OWN
    )
    out: Path | None = option(None, "A folder for the reports (HTML, JSON, CSV, JUnit, Markdown).")
    reports: str = option(
        ",".join(Report),
        f"Which reports: {', '.join(Report)}; json is written with any.",
        metavar="KIND,…",
        shown_default="all",
        setting=OWN,
    )


def grade(
    gates: Gates,
    select: Selection,
    judge: JudgeOptions,
    graded: GradeOptions,
    of_run: RunNote,
    at: StoredIn,
    by: Graders,
    every: Every,
    scores_to: ScoresTo,
    printed: Printed,
) -> None:
    """Grade stored sessions against a golden dataset or, without one, by gates alone.

    Exit codes: 0 all passed, 1 a session failed, 2 bad input, 3 a metric or judge broke, 4 inconclusive.
    """
    if scores_to.send is not None and graded.dry_run:
        raise InputError("--send: expected it without --dry-run, which stores nothing")
    if graded.dry_run:
        if select.of_run is None or replace(select, of_run=None) != Selection() or graded.spans:
            raise typer.BadParameter("it grades a run again: expected --of-run RUN, and no other sessions")
        with at.opened(by.workers) as opened:
            regraded = opened.regrade(
                select.of_run, dataset=graded.dataset, gates=gates, judge=judge, without=graded.without
            )
        if printed.as_table:
            from spangrade.evaluator.reports.regraded import regraded_tables

            show(regraded_tables(regraded, every=every.all))
        else:
            printed.write(regraded.to_json(), "changes")
        raise typer.Exit(regraded.run.exit_code)
    if graded.without:
        raise typer.BadParameter(
            "it leaves out what a run measured: expected --dry-run, too", param_hint="options.grade.without"
        )
    spec = GradeSpec.of(graded.dataset, gates, select, judge, **values_of(of_run))
    with at.opened(by.workers) as opened:
        run = opened.grade(spec, spans=graded.spans, out=graded.out, reports=graded.reports)
        sent = sent_scores(opened, run, scores_to)
    if printed.as_table:
        show_run(opened, run, every=every.all)
        show_sent(sent)
    else:
        from spangrade.evaluator.reports.json import run_json

        more = {} if sent is None else {"sent": sent._asdict()}
        printed.write({**run_json(run), **more}, "grades")
    raise typer.Exit(run.exit_code)
