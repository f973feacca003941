"""The command line, `spangrade`: each module parses, calls `spangrade.open()` and prints."""

from __future__ import annotations

import gc
import sys

from spangrade.tracer.errors import SpangradeError
from spangrade.tracer.terminal import log_to_terminal, warn


def main() -> None:
    """Run the command line; an error is one line on standard error and an exit code."""
    # Hundreds of thousands of small values are made and kept, hardly any in a cycle: looking for cycles after
    # every 700 of them takes a third of the time of an import or a grade.
    gc.set_threshold(200_000, 20, 20)
    from spangrade.evaluator.cli.app import app

    log_to_terminal()
    try:
        app()
    except SpangradeError as error:
        warn(str(error))
        sys.exit(error.exit_code)
