"""`spangrade delete`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spangrade.evaluator.cli.options import Printed, StoredIn
from spangrade.tracer.base.fields import option, values_of
from spangrade.tracer.base.terminal import counted, print_line, warn

if TYPE_CHECKING:
    from spangrade.evaluator.apps.lake.api import DeletedFromLake
    from spangrade.evaluator.database import Deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """Which sessions are deleted."""

    sessions: tuple[str, ...] = option((), "The session of this id.", name="--session")
    before: str | None = option(None, "Sessions that ended before 2026-01-31, or 30d ago.", metavar="TIME")
    by_arrival: bool = option(False, "With --before: keep what arrived since, however old it is.")
    user: str | None = option(None, "Sessions in which this user.id is named.")
    dry_run: bool = option(False, "Delete nothing, only count.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteInFile(DeleteOptions):
    """Which runs are deleted besides."""

    runs_before: str | None = option(
        None,
        "Runs graded before, unless one has a session's latest verdict.",
        metavar="TIME",
    )


def delete(which: DeleteInFile, at: StoredIn, printed: Printed) -> None:
    """Delete sessions for good: spans, logs, what is derived, scores; the file becomes smaller."""
    with at.opened() as opened:

        def on_start(counts: Deleted) -> None:
            size = opened.path.stat().st_size / 1e6
            warn(f"deleting {what_goes(counts)}: all of {opened.path} ({size:.1f} MB) is written again")

        deleted = opened.delete(**values_of(which), on_start=on_start)
    if not printed.as_table:
        printed.write(deleted._asdict())
        return
    what = what_goes(deleted)
    if deleted.rejected_files:
        what += f", and {counted(deleted.rejected_files, 'file')} of the spool that could not be loaded,"
    if which.dry_run:
        print_line(f"{what} would be deleted from {opened.path}")
    else:
        print_line(f"{what} deleted from {opened.path}, which is {deleted.bytes_saved / 1e6:.1f} MB smaller")


def what_goes(deleted: Deleted | DeletedFromLake) -> str:
    """Return how many sessions, spans and logs are deleted, and runs if there are any."""
    what = (
        f"{counted(deleted.sessions, 'session')}: "
        f"{counted(deleted.spans, 'span')} and {counted(deleted.logs, 'log')}"
    )
    runs = getattr(deleted, "runs", 0)  # a lake's stay
    return f"{what}; {counted(runs, 'run')}" if runs else what
