"""`spangrade lake`: sessions of more spans than one machine can hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates, GradeSpec
from spangrade.evaluator.apps.lake.engine import Engine
from spangrade.evaluator.cli.declare import Only, commands_under
from spangrade.evaluator.cli.delete import DeleteOptions, what_goes
from spangrade.evaluator.cli.options import Printed
from spangrade.evaluator.cli.output import print_table
from spangrade.tracer.base.fields import REQUIRED, argument, option, values_of
from spangrade.tracer.base.terminal import counted, print_line, warn


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeOption:
    """Which lake."""

    lake: str = option(
        REQUIRED,
        "The catalog: 'postgres:dbname=lake host=db user=me'; the password: PGPASSWORD or ~/.pgpass.",
        metavar="postgres:…",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Where the work is done."""

    engine: Engine = option(Engine.LOCAL, "Processes of this machine, or Ray's.", name="--on")
    workers: int = option(1, "Processes that work.", least=1, metavar="N")
    ray_address: str | None = option(None, "A Ray cluster; else one is started here.", metavar="HOST:PORT")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFiles:
    """Where the files of a new lake are."""

    data: str | None = option(None, "The folder or s3://… of the lake's files; only for a new lake.")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOptions:
    """What has landed, and what is made of it."""

    dataset: Path | None = argument(None, "Golden questions to grade the sessions by.")
    landing: str = option(REQUIRED, "The folder or s3://… that `serve --only receive` writes to.")
    session_from: tuple[str, ...] | None = option(
        None, "An attribute that holds the session's id; only for a new lake.", metavar="ATTRIBUTE"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeImport:
    """What is imported into a lake."""

    file: Path = argument(REQUIRED, "A database file of spangrade.", metavar="FILE.duckdb")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeDerive:
    """By which rules all is derived again."""

    session_from: tuple[str, ...] | None = option(
        None, "An attribute that holds the session's id, from now on.", metavar="ATTRIBUTE"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """What stays."""

    keep_days: int = option(7, "For how many days snapshots are kept.", least=1, metavar="N")


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingFolder:
    """Where what is deleted landed."""

    landing: str | None = option(None, "The folder or s3://… that `serve --only receive` writes to.")


def update(
    gates: Annotated[Gates, Only("metrics", "metrics_files")],
    landed: UpdateOptions,
    of_run: Annotated[GradeSpec, Only("name")],
    at: LakeOption,
    files: LakeFiles,
    on: EngineOptions,
    printed: Printed,
) -> None:
    """Make sessions of what landed since the last update, and grade them: all of it in one commit.

    An update that fails or is killed changes nothing; run it again. Of two at once, one is refused.
    """
    from spangrade.evaluator.apps.lake import api

    updated = api.update(
        at.lake,
        landed.landing,
        files.data,
        spec=GradeSpec.of(landed.dataset, gates, name=of_run.name),
        session_from=landed.session_from,
        **values_of(on),
    )
    graded = updated.graded
    if not printed.as_table:
        verdicts = None if graded is None else {verdict.value: n for verdict, n in graded.verdicts.items()}
        unanswered = None if graded is None else list(graded.unanswered)
        counts = {name: getattr(updated, name) for name in ("files", "sessions", "spans", "logs")}
        printed.write({**counts, "verdicts": verdicts, "unanswered_questions": unanswered})
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


def import_(what: LakeImport, at: LakeOption, files: LakeFiles, on: EngineOptions, printed: Printed) -> None:
    """Import a database file: its spans and logs, from which sessions are derived, its runs and scores.

    What the lake has already stays as it is. A new lake gets the settings of the file.
    """
    from spangrade.evaluator.apps.lake import api

    imported = api.import_file(at.lake, what.file, files.data, **values_of(on))
    if not printed.as_table:
        printed.write(imported._asdict())
    elif not any(imported):
        print_line(f"nothing in {what.file} that the lake has not")
    else:
        print_line(
            f"{counted(imported.spans, 'new span')}, {counted(imported.logs, 'new log')}, "
            f"{counted(imported.sessions, 'session')} derived; {counted(imported.runs, 'run')}, "
            f"{counted(imported.scores, 'score')} of people and programs"
        )


def derive(rules: LakeDerive, at: LakeOption, on: EngineOptions, printed: Printed) -> None:
    """Derive all sessions again from the spans of the lake, in one commit; runs stay.

    It is needed when another version of spangrade, or one with other settings, is to update the lake.
    """
    from spangrade.evaluator.apps.lake import api

    derived = api.derive(at.lake, session_from=rules.session_from, **values_of(on))
    if not printed.as_table:
        printed.write({"sessions": derived.sessions})
    else:
        print_line(f"{counted(derived.sessions, 'session')} derived")


def compact(kept: CompactOptions, at: LakeOption, on: EngineOptions, printed: Printed) -> None:
    """Merge small files, and remove those that nobody reads any more; no row changes.

    Removed are the files of snapshots that are too old, and those that an update left behind a day ago.
    """
    from spangrade.evaluator.apps.lake import api

    compacted = api.compact(at.lake, keep_days=kept.keep_days, **values_of(on))
    if not printed.as_table:
        printed.write(compacted._asdict())
        return
    print_line(
        f"{counted(compacted.files_before, 'file')} before, {compacted.files_after} after; "
        f"{compacted.removed} removed from storage, {compacted.bytes_removed / 1e6:.1f} MB"
    )
    if compacted.skipped:
        warn(f"changed meanwhile, and not merged: {', '.join(compacted.skipped)}: run it again")


def delete(
    which: DeleteOptions, landed: LandingFolder, at: LakeOption, on: EngineOptions, printed: Printed
) -> None:
    """Delete sessions for good: their rows, the files that held them, and what landing files have of them.

    Earlier snapshots are gone then. An update that runs meanwhile is refused.
    """
    from spangrade.evaluator.apps.lake import api

    deleted = api.delete(at.lake, landed.landing, **values_of(which), **values_of(on))
    if not printed.as_table:
        printed.write(deleted._asdict())
        return
    what = what_goes(deleted)
    if which.dry_run:
        print_line(f"{what} would be deleted")
    else:
        print_line(f"{what} deleted; {counted(deleted.landing_files, 'landing file')} had some of it")
    if deleted.unread:
        warn(f"landed and not read yet: {counted(deleted.unread, 'file')}; what they have of it is new")


def status(at: LakeOption, printed: Printed) -> None:
    """Show how large a lake is."""
    from spangrade.evaluator.apps.lake import api

    found = api.status(at.lake)._asdict()
    if printed.as_table:
        print_table([found], list(found))
    else:
        printed.write(found)


app = commands_under(
    "lake",
    "Keep sessions in a lake: Parquet files in a folder or in S3, with a catalog in Postgres.",
    update,
    import_,
    derive,
    compact,
    delete,
    status,
    no_args_is_help=True,
)
