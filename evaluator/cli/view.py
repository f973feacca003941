"""`spangrade view`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import (
    AllowLabels,
    Db,
    GoldenToWrite,
    LakeCatalog,
    LogFormatOption,
    LogLevelOption,
    Person,
    person_who_labels,
)
from spangrade.evaluator.cli.output import database_or_lake
from spangrade.tracer.errors import InputError
from spangrade.tracer.terminal import LogFormat, LogLevel, log_of_service, print_line

_log = logging.getLogger("spangrade")


def view(
    db: Db = None,
    lake: LakeCatalog = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on, on this machine only; 0: any.")
    ] = 4319,
    export: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the pages of a run to this new folder instead of serving."),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="With --export: the run's name, or its id; else the latest."),
    ] = None,
    allow_labels: AllowLabels = False,
    as_: Person = None,
    golden: GoldenToWrite = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Serve pages of the sessions, their verdicts and the runs, for a browser on this machine.

    The pages change nothing, unless --allow-labels lets a person write labels. Agents and `spangrade collect`
    can write meanwhile. With --export the pages of one run become files, which open from disk.
    """
    if export is not None:
        from spangrade.evaluator.view.export import export_run

        with database_or_lake(db, lake) as opened:
            sessions = export_run(opened.stored, export, run)
        print_line(f"{export / 'index.html'}: {sessions} session{'' if sessions == 1 else 's'}")
        return
    if run is not None:
        raise InputError("--run names the run to --export: expected both")
    person = person_who_labels(allow_labels, as_, golden)
    try:
        from spangrade.evaluator.view.database import viewed
        from spangrade.evaluator.view.labelling import Reviewer
        from spangrade.evaluator.view.server import serve
    except ModuleNotFoundError as error:
        raise InputError(f"view needs {error.name}: pip install '.[view]' in its checkout") from None

    log_of_service(log_format, log_level)
    with database_or_lake(db, lake) as opened:
        serve(
            viewed(opened.stored),
            port,
            reviewer=None if person is None else Reviewer(person, golden),
            ready=lambda url: _log.info("%s at %s (Ctrl+C stops)", opened.path, url),
        )
    _log.info("stopped")
