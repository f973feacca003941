"""`spangrade watch`."""

from __future__ import annotations

import logging
import signal
import threading
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import typer

from spangrade import Gates, JudgeOptions
from spangrade.evaluator.cli.options import InFile, Logs, Selected
from spangrade.evaluator.cli.secrets import secret
from spangrade.evaluator.watch.options import WatchOptions
from spangrade.tracer.base.fields import argument, option
from spangrade.tracer.base.terminal import print_line

_log = logging.getLogger("spangrade")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTarget:
    """By what sessions are graded, and where the webhook's address is."""

    dataset: Path | None = argument(
        None, "Golden questions that sessions may answer; without, gates alone grade them."
    )
    webhook_file: Path | None = option(
        None, "A file with the URL of the webhook, which may be a secret.", metavar="FILE"
    )


def watch(
    context: typer.Context,
    gates: Gates,
    select: Selected,
    judge: JudgeOptions,
    options: WatchOptions,
    watched: WatchTarget,
    at: InFile,
    logs: Logs,
) -> None:
    """Grade sessions once they are idle, and again if something arrives for them; runs beside `collect`.

    They are those of production, unless --origin is given. Each session is graded once for what it is. Stop
    it with Ctrl-C or SIGTERM: the next start goes on where it stopped, also after a crash. Exit codes: 0
    stopped or, with --once, done; 2 bad input.
    """
    logs.begin()
    url = secret(context, "webhook", options.webhook, watched.webhook_file)
    options = replace(options, webhook=url)
    stop = threading.Event()
    _stop_at_signals(stop)
    with at.opened() as opened:

        def started() -> None:
            if not options.once:
                _log.info("watching %s: sessions are graded when idle for %s", opened.path, options.idle_s)

        summary = opened.watch(
            watched.dataset,
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
