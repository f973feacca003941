"""`spangrade view`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from spangrade import Selection
from spangrade.evaluator.cli.options import Labelling, Logs, Selected, StoredIn
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import option
from spangrade.tracer.base.installation import needing
from spangrade.tracer.base.terminal import print_line

_log = logging.getLogger("spangrade")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """Where pages are served or written, and what they may change."""

    port: int = option(4319, "The port to listen on, on this machine only; 0: any.", least=0, most=65535)
    export: Path | None = option(
        None, "Write the pages of a run to this new folder instead of serving.", metavar="DIR"
    )
    run: str | None = option(
        None, "With --export: the run's name, or its id; else the latest.", metavar="RUN"
    )


def view(select: Selected, viewing: ViewOptions, labelling: Labelling, at: StoredIn, logs: Logs) -> None:
    """Serve pages of the sessions, their verdicts and the runs, for a browser on this machine.

    The pages change nothing, unless --allow-labels lets a person write labels. Agents and `serve` can
    write meanwhile. With --export the pages of one run become files, which open from disk.
    """
    if viewing.export is not None:
        from spangrade.evaluator.apps.server.pages.export import export_run

        if select != Selection():
            raise InputError("--export writes the pages of a run: expected no selection of sessions")
        with at.opened() as opened:
            sessions = export_run(opened.stored, viewing.export, viewing.run)
        print_line(f"{viewing.export / 'index.html'}: {sessions} session{'' if sessions == 1 else 's'}")
        return
    if viewing.run is not None:
        raise InputError("--run names the run to --export: expected both")
    person = labelling.person()
    with needing("view", "view"):
        from spangrade.evaluator.apps.server.pages.database import viewed
        from spangrade.evaluator.apps.server.pages.labelling import Reviewer
        from spangrade.evaluator.apps.server.pages.server import serve

    logs.begin()
    with at.opened() as opened:
        serve(
            viewed(opened.stored, select),
            viewing.port,
            reviewer=None if person is None else Reviewer(person, labelling.golden),
            ready=lambda url: _log.info("%s at %s (Ctrl+C stops)", opened.path, url),
        )
    _log.info("stopped")
