"""`spangrade lake`: sessions of more spans than one machine can hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates, GradeSpec
from spangrade.evaluator.cli.delete import Before, ByArrival, DryRun, Session, User
from spangrade.evaluator.cli.options import Format, OutputFormat, option_of, with_groups
from spangrade.evaluator.cli.output import print_json, print_table
from spangrade.evaluator.lake.engine import Engine
from spangrade.tracer.terminal import counted, print_line, warn

app = typer.Typer(
    name="lake",
    help="Keep sessions in a lake: Parquet files in a folder or in S3, with a catalog in Postgres.",
    no_args_is_help=True,
    add_completion=False,  # that of `spangrade` is enough
)
Catalog = Annotated[
    str,
    typer.Option(
        "--lake",
        metavar="postgres:…",
        help="The catalog: 'postgres:dbname=lake host=db user=me'; the password: PGPASSWORD or ~/.pgpass.",
    ),
]

On = Annotated[Engine, typer.Option("--on", help="Processes of this machine, or Ray's.", hidden=True)]
Processes = Annotated[
    int, typer.Option("--workers", min=1, metavar="N", help="Processes that work.", hidden=True)
]
RayAddress = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A Ray cluster; else one is started here.", hidden=True),
]
Data = Annotated[
    str | None,
    typer.Option(help="The folder or s3://… of the lake's files; only for a new lake.", hidden=True),
]


def update(
    gates: Gates,
    lake: Catalog,
    landing: Annotated[str, typer.Option(help="The folder or s3://… that `collect --lake` writes to.")],
    dataset: Annotated[Path | None, typer.Argument(help="Golden questions to grade the sessions by.")] = None,
    data: Data = None,
    name: Annotated[str | None, option_of(GradeSpec, "name")] = None,
    session_from: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTRIBUTE", help="An attribute that holds the session's id; only for a new lake."
        ),
    ] = None,
    on: On = Engine.LOCAL,
    workers: Processes = 1,
    ray_address: RayAddress = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Make sessions of what landed since the last update, and grade them: all of it in one commit.

    An update that fails or is killed changes nothing; run it again. Of two at once, one is refused.
    """
    from spangrade.evaluator.lake import api

    updated = api.update(
        lake,
        landing,
        data,
        spec=GradeSpec.of(dataset, gates, name=name),
        engine=on,
        workers=workers,
        ray_address=ray_address,
        session_from=session_from,
    )
    graded = updated.graded
    if format is Format.JSON:
        verdicts = None if graded is None else {verdict.value: n for verdict, n in graded.verdicts.items()}
        unanswered = None if graded is None else list(graded.unanswered)
        counts = {name: getattr(updated, name) for name in ("files", "sessions", "spans", "logs")}
        print_json({**counts, "verdicts": verdicts, "unanswered_questions": unanswered})
    elif updated.files == 0:
        print_line("nothing new has landed")
    else:
        print_line(
            f"{counted(updated.files, 'file')}: {counted(updated.spans, 'new span')}, "
            f"{counted(updated.logs, 'new log')}, {counted(updated.sessions, 'session')} derived"
        )
        if graded is not None:
            sessions = ", ".join(f"{n} {verdict.value}" for verdict, n in graded.verdicts.items())
            questions = counted(len(graded.unanswered), "question")
            print_line(f"{sessions or 'no sessions'}; {questions} without a session")
    raise typer.Exit(0 if graded is None else graded.exit_code)


app.command()(with_groups(update))


@app.command(name="import", hidden=True)
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE.duckdb", help="A database file of spangrade.")],
    lake: Catalog,
    data: Data = None,
    on: On = Engine.LOCAL,
    workers: Processes = 1,
    ray_address: RayAddress = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Import a database file: its spans and logs, from which sessions are derived, its runs and scores.

    What the lake has already stays as it is. A new lake gets the settings of the file.
    """
    from spangrade.evaluator.lake import api

    imported = api.import_file(lake, file, data, engine=on, workers=workers, ray_address=ray_address)
    if format is Format.JSON:
        print_json(imported._asdict())
    elif not any(imported):
        print_line(f"nothing in {file} that the lake has not")
    else:
        print_line(
            f"{counted(imported.spans, 'new span')}, {counted(imported.logs, 'new log')}, "
            f"{counted(imported.sessions, 'session')} derived; {counted(imported.runs, 'run')}, "
            f"{counted(imported.scores, 'score')} of people and programs"
        )


@app.command(hidden=True)
def derive(
    lake: Catalog,
    session_from: Annotated[
        list[str] | None,
        typer.Option(metavar="ATTRIBUTE", help="An attribute that holds the session's id, from now on."),
    ] = None,
    on: On = Engine.LOCAL,
    workers: Processes = 1,
    ray_address: RayAddress = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Derive all sessions again from the spans of the lake, in one commit; runs stay.

    It is needed when another version of spangrade, or one with other settings, is to update the lake.
    """
    from spangrade.evaluator.lake import api

    derived = api.derive(lake, session_from=session_from, engine=on, workers=workers, ray_address=ray_address)
    if format is Format.JSON:
        print_json({"sessions": derived.sessions})
    else:
        print_line(f"{counted(derived.sessions, 'session')} derived")


@app.command(hidden=True)
def compact(
    lake: Catalog,
    keep_days: Annotated[
        int, typer.Option(min=1, metavar="N", help="For how many days snapshots are kept.")
    ] = 7,
    on: On = Engine.LOCAL,
    workers: Processes = 1,
    ray_address: RayAddress = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Merge small files, and remove those that nobody reads any more; no row changes.

    Removed are the files of snapshots that are too old, and those that an update left behind a day ago.
    """
    from spangrade.evaluator.lake import api

    compacted = api.compact(lake, keep_days=keep_days, engine=on, workers=workers, ray_address=ray_address)
    if format is Format.JSON:
        print_json(compacted._asdict())
        return
    print_line(
        f"{counted(compacted.files_before, 'file')} before, {compacted.files_after} after; "
        f"{compacted.removed} removed from storage, {compacted.bytes_removed / 1e6:.1f} MB"
    )
    if compacted.skipped:
        warn(f"changed meanwhile, and not merged: {', '.join(compacted.skipped)}: run it again")


@app.command(hidden=True)
def delete(
    lake: Catalog,
    landing: Annotated[
        str | None, typer.Option(help="The folder or s3://… that `collect --lake` writes to.")
    ] = None,
    session: Session = None,
    before: Before = None,
    by_arrival: ByArrival = False,
    user: User = None,
    dry_run: DryRun = False,
    on: On = Engine.LOCAL,
    workers: Processes = 1,
    ray_address: RayAddress = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Delete sessions for good: their rows, the files that held them, and what landing files have of them.

    Earlier snapshots are gone then. An update that runs meanwhile is refused.
    """
    from spangrade.evaluator.lake import api

    deleted = api.delete(
        lake,
        landing,
        sessions=session or (),
        before=before,
        by_arrival=by_arrival,
        user=user,
        dry_run=dry_run,
        engine=on,
        workers=workers,
        ray_address=ray_address,
    )
    if format is Format.JSON:
        print_json(deleted._asdict())
        return
    what = (
        f"{counted(deleted.sessions, 'session')}: "
        f"{counted(deleted.spans, 'span')} and {counted(deleted.logs, 'log')}"
    )
    if dry_run:
        print_line(f"{what} would be deleted")
    else:
        print_line(f"{what} deleted; {counted(deleted.landing_files, 'landing file')} had some of it")
    if deleted.unread:
        warn(f"landed and not read yet: {counted(deleted.unread, 'file')}; what they have of it is new")


@app.command(hidden=True)
def status(lake: Catalog, format: OutputFormat = Format.TABLE) -> None:  # noqa: A002 (the option's name)
    """Show how large a lake is."""
    from spangrade.evaluator.lake import api

    found = api.status(lake)._asdict()
    if format is Format.JSON:
        print_json(found)
    else:
        print_table([found], list(found))
