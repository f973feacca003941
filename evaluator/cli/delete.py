"""`spangrade delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from spangrade.evaluator.cli.options import Db, Format, OutputFormat
from spangrade.evaluator.cli.output import database, print_json
from spangrade.tracer.terminal import counted, print_line, warn

if TYPE_CHECKING:
    from spangrade.evaluator.database import Deleted

Session = Annotated[list[str] | None, typer.Option(help="The session of this id.")]
Before = Annotated[
    str | None, typer.Option(metavar="TIME", help="Sessions that ended before 2026-01-31, or 30d ago.")
]
ByArrival = Annotated[
    bool, typer.Option("--by-arrival", help="With --before: keep what arrived since, however old it is.")
]
User = Annotated[str | None, typer.Option(help="Sessions in which this user.id is named.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Delete nothing, only count.")]


def delete(
    db: Db = None,
    session: Session = None,
    before: Before = None,
    by_arrival: ByArrival = False,
    user: User = None,
    dry_run: DryRun = False,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Delete sessions for good: spans, logs, what is derived, scores; the file becomes smaller."""
    with database(db) as opened:

        def on_start(counts: Deleted) -> None:
            size = opened.path.stat().st_size / 1e6
            warn(f"deleting {_what(counts)}: all of {opened.path} ({size:.1f} MB) is written again")

        deleted = opened.delete(
            session or (), before=before, by_arrival=by_arrival, user=user, dry_run=dry_run, on_start=on_start
        )
    if format is Format.JSON:
        print_json(deleted._asdict())
        return
    what = _what(deleted)
    if deleted.rejected_files:
        what += f", and {counted(deleted.rejected_files, 'file')} of the spool that could not be loaded,"
    if dry_run:
        print_line(f"{what} would be deleted from {opened.path}")
    else:
        print_line(f"{what} deleted from {opened.path}, which is {deleted.bytes_saved / 1e6:.1f} MB smaller")


def _what(deleted: Deleted) -> str:
    return (
        f"{counted(deleted.sessions, 'session')}: "
        f"{counted(deleted.spans, 'span')} and {counted(deleted.logs, 'log')}"
    )
