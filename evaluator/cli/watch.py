"""`spangrade watch`."""

from __future__ import annotations

import logging
import signal
import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates, JudgeOptions, Selection
from spangrade.evaluator.cli.options import Db, LogFormatOption, LogLevelOption, Only
from spangrade.evaluator.cli.output import database
from spangrade.evaluator.cli.secrets import secret
from spangrade.evaluator.watch.options import WatchOptions
from spangrade.tracer.terminal import LogFormat, LogLevel, log_of_service, print_line

_log = logging.getLogger("spangrade")


def watch(
    context: typer.Context,
    gates: Gates,
    select: Annotated[Selection, Only("since", "sample", "origin")],
    judge: JudgeOptions,
    options: WatchOptions,
    dataset: Annotated[
        Path | None,
        typer.Argument(help="Golden questions that sessions may answer; without, gates alone grade them."),
    ] = None,
    db: Db = None,
    webhook_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the URL of the webhook, which may be a secret."),
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Grade sessions once they are idle, and again if something arrives for them; runs beside `collect`.

    Each session is graded once for what it is. Stop it with Ctrl-C or SIGTERM: the next start goes on where
    it stopped, also after a crash. Exit codes: 0 stopped or, with --once, done; 2 bad input.
    """
    log_of_service(log_format, log_level)
    url = secret(context, "webhook", "options_webhook", options.webhook, webhook_file)
    options = replace(options, webhook=url)
    stop = threading.Event()
    _stop_at_signals(stop)
    with database(db) as opened:

        def started() -> None:
            if not options.once:
                _log.info("watching %s: sessions are graded when idle for %s", opened.path, options.idle_s)

        summary = opened.watch(
            dataset,
            gates=gates,
            select=select,
            judge=judge,
            options=options,
            stop=stop,
            on_start=started,
            on_round=lambda now: print_line(f"{datetime.now():%H:%M:%S} {now}"),
        )
    if not options.once:
        _log.info("stopped")
    print_line(str(summary))


def _stop_at_signals(stop: threading.Event) -> None:
    """Set `stop` at the first SIGTERM or Ctrl-C; a second Ctrl-C ends the process at once."""

    def handle(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        # In another thread: this one may hold the lock of `stop` while it waits for it.
        threading.Thread(target=stop.set, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
