"""`spangrade show`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spangrade import Selection
from spangrade.evaluator.cli.options import Printed, Selected, StoredIn
from spangrade.evaluator.cli.output import console, print_table
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import argument, option
from spangrade.tracer.base.terminal import counted, print_line

if TYPE_CHECKING:
    from spangrade import Database


VERDICTS = ("passed", "failed", "inconclusive", "broken")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """What is shown of a session or a run."""

    named: str | None = argument(
        None,
        "A session's id, or the beginning of one, or a golden question; or a run: its name, the beginning of "
        "its id, `latest`, `branch:NAME`. Without it, why sessions failed as graded now.",
        metavar="SESSION|RUN",
    )
    why: bool = option(False, "List the session's spans, and why each counts or does not.")
    run: str | None = option(
        None, "The verdict of this run, by its name or id, in place of the latest.", metavar="RUN"
    )
    baseline: str | None = option(
        None, "Of a run: hold its failed sessions against those that pass in this one, too.", metavar="RUN"
    )
    about: str = option("", "Of a run: only failures that say this, such as a tool.", metavar="TEXT")


def show(select: Selected, shown: ShowOptions, at: StoredIn, printed: Printed) -> None:
    """Show what an agent did in one session, its verdict and scores; or why sessions of a run failed.

    Of a golden question it is the newest session, with the number of older ones on standard error. Of a run,
    the sessions that failed alike are together, with what tells them from those that pass: what Fisher's
    exact test finds in more of them than chance explains (of what is shown at most 5% is chance).
    """
    with at.opened() as opened:
        run_id = None
        if shown.named is not None and not shown.why and shown.run is None:
            run_id = opened.run_to_show(shown.named)
        if shown.named is None or run_id is not None:
            _show_run(opened, run_id, select, shown, printed)
            return
        if select != Selection() or shown.baseline is not None or shown.about:
            raise InputError(f"{shown.named}: --baseline, --about and what chooses sessions are about a run")
        if shown.why:
            _show_why(opened, shown.named, printed)
            return
        stored, grade, given = opened.graded_session(shown.named, run=shown.run)
    if not printed.as_table:
        from spangrade.evaluator.reports.json import external_score_json

        external = [external_score_json(score) for score in given]
        graded = {"grade": grade and grade.to_json(), "external_scores": external}
        printed.write({**stored.to_json(), **graded}, "steps")
        return
    from spangrade.evaluator.reports.session_text import session_text

    out = console()
    for part in session_text(stored, grade, given):
        out.print(part)


def _show_run(
    opened: Database, run_id: str | None, select: Selection, shown: ShowOptions, printed: Printed
) -> None:
    """Print a run's totals, and why its sessions failed; without a run, of all sessions as graded now."""
    from spangrade.evaluator.reports.clusters import cluster_json, explained
    from spangrade.evaluator.reports.json import stored_run_json

    row = None
    if run_id is not None:
        listed = [*opened.list_runs().rows(), *opened.list_runs(watched=True).rows()]
        row = next(stored_run_json(one) for one in listed if one["run_id"] == run_id)
    found = opened.explain(shown.named, shown.about, baseline=shown.baseline, select=select)
    if not printed.as_table:
        printed.write({"run": row, "failures": list(map(cluster_json, found))}, "failures")
        return
    if row is not None:
        print_line(_totals(row))
    console().print(explained(found, shown.about))


def _totals(row: Mapping[str, Any]) -> str:
    """Return a run's totals in a line."""
    verdicts = ", ".join(f"{row[one]} {one}" for one in VERDICTS if row[one])
    name = row["name"] or row["run_id"]
    return f"{name}, {row['graded_at']:%Y-%m-%d %H:%M}: {counted(row['sessions'], 'session')}: {verdicts}"


def _show_why(opened: Database, session: str, printed: Printed) -> None:
    from spangrade.evaluator.reports.why import why_json, why_rows

    readings = opened.why(session)
    if printed.as_table:
        print_table(why_rows(readings), ("span", "span_id", "dialect", "read_as", "counts_as", "why"))
    else:
        printed.write(why_json(readings))
