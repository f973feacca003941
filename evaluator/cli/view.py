"""`spangrade view`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db, LakeCatalog, LogFormatOption, LogLevelOption
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
    allow_labels: Annotated[
        bool, typer.Option("--allow-labels", help="Let the pages write labels, scores and golden questions.")
    ] = False,
    as_: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="With --allow-labels: the person who labels."),
    ] = None,
    golden: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --allow-labels: the golden file to which questions are added."
        ),
    ] = None,
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
    if allow_labels != (as_ is not None and bool(as_.strip())):
        raise InputError("--allow-labels and --as NAME go together: a label has the name of its person")
    if golden is not None and not allow_labels:
        raise InputError("--golden is the file that a reviewer writes: expected --allow-labels, too")
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
            reviewer=Reviewer(as_.strip(), golden) if as_ is not None else None,
            ready=lambda url: _log.info("%s at %s (Ctrl+C stops)", opened.path, url),
        )
    _log.info("stopped")
