"""`spangrade view`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db
from spangrade.evaluator.cli.output import database
from spangrade.tracer.errors import InputError
from spangrade.tracer.terminal import log_to_terminal, print_line


def view(
    db: Db = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen at, on this machine only; 0: any.")
    ] = 4319,
) -> None:
    """Serve pages of the sessions, their verdicts and the runs, for a browser on this machine.

    The pages change nothing. Agents and `spangrade collect` can write meanwhile.
    """
    try:
        from spangrade.evaluator.view.server import serve
    except ModuleNotFoundError as error:
        raise InputError(f"view needs {error.name}: pip install 'spangrade[view]'") from None

    log_to_terminal("%(asctime)s %(levelname)s %(message)s")
    with database(db) as opened:
        serve(
            opened.path,
            port,
            ready=lambda url: print_line(f"{opened.path} at {url} (Ctrl+C stops)", sys.stderr),
        )
