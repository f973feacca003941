"""The command line: `spangrade`. Each command's module is imported when it is asked for."""

from __future__ import annotations

import sys

from spangrade.tracer.errors import SpangradeError


def main() -> None:
    """Run the command line; what spangrade refuses is one line on standard error and an exit code."""
    from spangrade.evaluator.cli.app import app

    try:
        app()
    except SpangradeError as error:
        print(f"spangrade: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
