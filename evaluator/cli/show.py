"""`spangrade show`."""

from __future__ import annotations

from dataclasses import dataclass

from spangrade.evaluator.cli.options import OneSession, Printed, StoredIn
from spangrade.evaluator.cli.output import console, print_table
from spangrade.tracer.base.fields import option


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """What is shown of a session."""

    why: bool = option(False, "List the session's spans, and why each counts or does not.")
    run: str | None = option(
        None, "The verdict of this run, by its name or id, in place of the latest.", metavar="RUN"
    )


def show(one: OneSession, shown: ShowOptions, at: StoredIn, printed: Printed) -> None:
    """Show what an agent did in one session, the verdict of the latest grade or of a run, and scores.

    Of a golden question it is the newest session, with the number of older ones on standard error.
    """
    if shown.why:
        _show_why(one.session, at, printed)
        return
    with at.opened() as opened:
        stored, grade, given = opened.graded_session(one.session, run=shown.run)
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


def _show_why(session: str, at: StoredIn, printed: Printed) -> None:
    from spangrade.evaluator.reports.why import why_json, why_rows

    with at.opened() as opened:
        readings = opened.why(session)
    if printed.as_table:
        print_table(why_rows(readings), ("span", "span_id", "dialect", "read_as", "counts_as", "why"))
    else:
        printed.write(why_json(readings))
