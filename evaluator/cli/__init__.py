"""The command line, `spangrade`: each module parses, calls `spangrade.open()` and prints.

It stands on `database` and what is below.
Begin with `commands.COMMANDS`.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from _thread import interrupt_main

TYPE_CHECKING = False  # nothing is imported here that takes time: Ctrl-C is caught from `main` on
if TYPE_CHECKING:
    from collections.abc import Callable
    from sys import UnraisableHookArgs


def main(prepare: Callable[[], None] = lambda: None) -> None:
    """Run the command line; whatever goes wrong is one line on standard error and an exit code.

    `prepare` is called first.
    """
    # Hundreds of thousands of small values are made and kept, few in a cycle: looking for cycles after
    # every 700 of them takes a third of the time of an import or a grade.
    gc.set_threshold(200_000, 20, 20)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a console of another encoding than UTF-8 lacks letters
    try:
        prepare()
        _run_command()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (any other end is Python's traceback)
        from spangrade.tracer.base.command_exit import leave

        leave(error)


def _run_command() -> None:
    if sys.argv[1:] in ([], ["-h"], ["--help"]) and not any(
        name.endswith("_COMPLETE") for name in os.environ
    ):
        from spangrade.evaluator.cli.commands import help_text

        sys.stdout.write(help_text())
        sys.stdout.flush()
        raise SystemExit(0)
    from spangrade.evaluator.cli.app import app
    from spangrade.tracer.base.command_exit import leave
    from spangrade.tracer.base.errors import ExitCode
    from spangrade.tracer.base.terminal import log_to_terminal

    log_to_terminal()
    try:
        app()
    except SystemExit as end:
        if end.code == ExitCode.INTERRUPTED and end.__cause__ is None:  # typer's, which says nothing
            leave(KeyboardInterrupt())
        raise
    finally:
        sys.stdout.flush()


def run() -> None:
    """Run the command line as a process of its own, which ends at once: to take modules apart takes 0.1 s.

    What others registered with `atexit` is called. While other threads run, the process ends as any other.
    """
    sys.unraisablehook = _press_again
    try:
        main(_open_outputs)
    except SystemExit as end:
        import threading

        code = end.code or 0
        if isinstance(code, int) and threading.active_count() == 1:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        raise


def _open_outputs() -> None:
    from spangrade.tracer.base.command_exit import open_outputs

    open_outputs()


def _press_again(unraisable: UnraisableHookArgs) -> None:
    """Press Ctrl-C again if Python lost it: what is raised while it finalizes a value ends nothing."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        interrupt_main()
    else:
        sys.__unraisablehook__(unraisable)
