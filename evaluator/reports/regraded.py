"""The verdicts that change when a run is graded again, as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table

from spangrade.evaluator.reports.tables import cell
from spangrade.tracer.base.terminal import counted

if TYPE_CHECKING:
    from spangrade.evaluator.grading.regrade import Regraded

MAX_LISTED = 20  # verdicts that change


def regraded_tables(regraded: Regraded, *, every: bool) -> RenderableType:
    """Return the verdicts that change, unless `every` the first of them, the notes, and the totals."""
    parts: list[RenderableType] = []
    shown = regraded.changes if every else regraded.changes[:MAX_LISTED]
    if shown:
        made = Table("session", "question", "before", "now", "reason")
        for one in shown:
            reason = one.reason or one.reason_before
            made.add_row(*map(cell, (one.session_id, one.question_id, one.before, one.after, reason)))
        parts.append(made)
    if len(shown) < len(regraded.changes):
        parts.append(cell(f"and {len(regraded.changes) - len(shown)} more; --all lists them"))
    parts += [cell(f"note: {note}") for note in regraded.notes]
    before = ", ".join(f"{number} {verdict}" for verdict, number in sorted(regraded.before.items()))
    changed = len(regraded.changes)
    for line in (
        f"before, in {regraded.stored.label}: {before}",
        f"now: {regraded.run}",
        f"{counted(changed, 'verdict')} {'changes' if changed == 1 else 'change'}",
    ):
        parts.append(cell(line))
    return Group(*parts)
