"""The command line, `spangrade`: each module parses, calls `spangrade.open()` and prints."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from _thread import interrupt_main
from typing import TYPE_CHECKING

from spangrade.tracer.command_exit import leave, open_outputs
from spangrade.tracer.errors import ExitCode, InputError
from spangrade.tracer.fields import FieldError
from spangrade.tracer.terminal import log_to_terminal

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


def main() -> None:
    """Run the command line; whatever goes wrong is one line on standard error and an exit code."""
    # Hundreds of thousands of small values are made and kept, few in a cycle: looking for cycles after
    # every 700 of them takes a third of the time of an import or a grade.
    gc.set_threshold(200_000, 20, 20)
    try:
        from spangrade.evaluator.cli.app import app

        log_to_terminal()
        try:
            app()
        except SystemExit as end:
            if end.code == ExitCode.INTERRUPTED and end.__cause__ is None:  # typer's, which says nothing
                leave(KeyboardInterrupt())
            raise
        except FieldError as error:
            from spangrade.evaluator.cli.options import in_words_of_options

            raise InputError(in_words_of_options(error)) from error
        finally:
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (any other end is Python's traceback)
        leave(error)


def run() -> None:
    """Run the command line as a process of its own, which ends at once: to take modules apart takes 0.1 s.

    What others registered with `atexit` is called. While other threads run, the process ends as any other.
    """
    open_outputs()
    sys.unraisablehook = _press_again
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
        if isinstance(code, int) and threading.active_count() == 1:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        raise


def _press_again(unraisable: UnraisableHookArgs) -> None:
    """Press Ctrl-C again if Python lost it: what is raised while it finalizes a value ends nothing."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        interrupt_main()
    else:
        sys.__unraisablehook__(unraisable)
