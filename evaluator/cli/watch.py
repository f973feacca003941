"""`spangrade watch`."""

from __future__ import annotations

import signal
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import (
    Db,
    JudgeModel,
    JudgeThreshold,
    JudgeVotes,
    MetricRequests,
    MetricsFiles,
    NoReference,
    NoReferences,
    seconds,
    share,
)
from spangrade.evaluator.cli.output import database
from spangrade.tracer.terminal import log_to_terminal, print_line


def watch(
    dataset: Annotated[
        Path | None,
        typer.Argument(help="Golden questions that sessions may answer; without, gates alone grade them."),
    ] = None,
    db: Db = None,
    metric: MetricRequests = None,
    metrics_file: MetricsFiles = None,
    no_reference: NoReference = None,
    no_references: NoReferences = False,
    idle: Annotated[
        str, typer.Option(metavar="5m", help="Grade a session when nothing has arrived for it for so long.")
    ] = "5m",
    every: Annotated[
        str, typer.Option(metavar="30s", help="How often to look for sessions that are idle.")
    ] = "30s",
    once: Annotated[
        bool, typer.Option("--once", help="Grade what is idle now, send what is due, and exit.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only sessions since 2026-01-31, or of the last 30d.")
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(metavar="5%", help="Only a share of the sessions, by their ids: the same each time."),
    ] = None,
    judge_model: JudgeModel = None,
    judge_max_calls: Annotated[
        int | None,
        typer.Option(
            "--judge-max-calls", metavar="N", min=0, help="Ask the judge at most N times a day, in UTC."
        ),
    ] = None,
    judge_max_cost: Annotated[
        float | None,
        typer.Option(
            "--judge-max-cost",
            metavar="USD",
            min=0,
            help="Spend at most so many USD on the judge a day (UTC).",
        ),
    ] = None,
    judge_votes: JudgeVotes = 1,
    judge_threshold: JudgeThreshold = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            envvar="SPANGRADE_WEBHOOK",
            metavar="URL",
            help="Send each session that fails there, signed with $SPANGRADE_WEBHOOK_SECRET.",
        ),
    ] = None,
    otlp: Annotated[
        bool,
        typer.Option("--otlp", help="Send events and metrics over OTLP, as OTEL_EXPORTER_OTLP_* say."),
    ] = False,
) -> None:
    """Grade sessions once they are idle, and again if something arrives for them; runs beside `collect`.

    Each session is graded once for what it is. Stop it with Ctrl-C or SIGTERM: the next start goes on where
    it stopped, also after a crash. Exit codes: 0 stopped or, with --once, done; 2 bad input.
    """
    log_to_terminal("%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    _stop_at_signals(stop)
    with database(db) as opened:

        def started() -> None:
            if not once:
                print_line(f"watching {opened.path}: sessions are graded when idle for {idle}", sys.stderr)

        summary = opened.watch(
            dataset,
            metrics=metric or (),
            metrics_files=metrics_file or (),
            no_reference=no_reference or (),
            no_references=no_references,
            idle_s=seconds("--idle", idle),
            every_s=seconds("--every", every),
            once=once,
            stop=stop,
            since=since,
            sample=1.0 if sample is None else share("--sample", sample),
            judge_model=judge_model,
            judge_max_calls=judge_max_calls,
            judge_max_cost=judge_max_cost,
            judge_votes=judge_votes,
            judge_threshold=judge_threshold,
            webhook=webhook,
            otlp=otlp,
            on_start=started,
            on_round=lambda now: print_line(f"{datetime.now():%H:%M:%S} {now}"),
        )
    print_line(str(summary))


def _stop_at_signals(stop: threading.Event) -> None:
    """Set `stop` at the first SIGTERM or Ctrl-C; a second Ctrl-C ends the process at once."""

    def handle(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        # In another thread: this one may hold the lock of `stop` while it waits for it.
        threading.Thread(target=stop.set, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
