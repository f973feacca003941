"""What a server does beside receiving: it grades sessions as they arrive, and serves the pages."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import Gauge, Histogram

from spangrade.evaluator.apps.server.entrance import Entrance, ServedSite
from spangrade.evaluator.apps.server.grade.alerts import end_removed
from spangrade.evaluator.apps.server.grade.deliveries import Counts
from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.apps.server.grade.prometheus import TotalsCollector
from spangrade.evaluator.apps.server.grade.watch import WatchSummary, watch
from spangrade.evaluator.apps.server.pages.app import create_app
from spangrade.evaluator.apps.server.pages.database import ViewedDatabase
from spangrade.evaluator.apps.server.start import ServedBy, ServeOptions
from spangrade.evaluator.derive.sync.intake import Callbacks
from spangrade.evaluator.derive.sync.update import outdated_sessions
from spangrade.evaluator.grading.spec import GradeSpec
from spangrade.evaluator.results.alarms import count_alarms
from spangrade.tracer.base.http_server import QuietServer, http_config
from spangrade.tracer.receiver.counters import BUSY_S
from spangrade.tracer.receiver.server import (
    Receiving,
    limited_protocol,
    shown_host,
)
from spangrade.tracer.store import Store

_log = logging.getLogger("spangrade")
_GRACE_S = 10
_OVERDUE_S = 300  # after which the first page says that a session waits to be graded


class _Watched:
    """What `watch` did, for health and metrics."""

    def __init__(self, *, grades: bool) -> None:
        self.grades = grades
        self.summary = WatchSummary({}, 0, 0, {})
        self.problem: str | None = None
        self.looks = 0
        self.failure: BaseException | None = None

    def looked(self, problem: str | None, summary: WatchSummary | None) -> None:
        self.looks += 1
        self.problem = problem
        self.summary = summary or self.summary

    @property
    def overdue_s(self) -> float:
        """For how many seconds the oldest session that is due has been so; 0 if none is."""
        due_ns = self.summary.first_due_ns
        return 0.0 if due_ns is None else max(0.0, (time.monotonic_ns() - due_ns) / 1e9)

    def to_json(self) -> dict[str, object]:
        return {
            "grades": self.grades,
            "problem": self.problem,
            "graded": sum(self.summary.verdicts.values()),
            "waiting": self.summary.waiting,
        }


async def serve_beside(
    options: ServeOptions,
    grading: ServedBy,
    receiver: Receiving,
    receiving: asyncio.Future[None],
    listener: socket.socket | None,
    stop: asyncio.Event,
    ready: Callable[[str, str, str], None],
) -> None:
    """Grade, and serve the pages at `listener`, beside a receiver, until `stop` is set or it ends."""
    spec, watching, callbacks = grading
    loop, stop_watching = asyncio.get_running_loop(), threading.Event()
    watched = _Watched(grades=options.grades and _is_graded(spec, watching))
    shown = ViewedDatabase(options.receiver.db, callbacks.configured)
    outdated = await asyncio.to_thread(_take_over, options, watched)
    thread = threading.Thread(
        target=_watch,
        args=(spec, options.receiver.db, watching, callbacks, stop_watching, watched),
        kwargs={"on_failure": lambda: loop.call_soon_threadsafe(stop.set)},
        name="watch",
    )
    pages = QuietServer(_config(options, receiver, watched, shown))
    address, served = "", []
    if listener is not None:
        pages.config.load()
        pages.config.ssl = receiver.tls
        served = [asyncio.create_task(pages.serve([listener]))]
        scheme = "https" if options.receiver.certificate else "http"
        port = listener.getsockname()[1]
        address = f"{scheme}://{shown_host(options.receiver.host)}:{port}{options.base}/"
    if outdated and options.shows:
        shown.upgrade(outdated)
    if watched.grades:
        thread.start()
    elif options.grades:
        _log.info("nothing is graded: no dataset, gates, rules or alerts are given")
    ready(address, receiver.http, receiver.grpc)
    stopped = asyncio.create_task(stop.wait())
    running: set[asyncio.Future[Any]] = {stopped, receiving, *served}
    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    stop_watching.set()
    pages.should_exit = True
    for serving in served:
        await serving
    await asyncio.to_thread(shown.stop)
    if watched.grades:
        await asyncio.to_thread(thread.join)
    await stopped
    if watched.failure is not None:
        raise watched.failure


def _take_over(options: ServeOptions, watched: _Watched) -> int:
    """End alarms of earlier settings; return how many sessions an earlier version derived."""
    with Store.open(options.receiver.db, wait_s=5.0) as store:
        if options.grades and not watched.grades and count_alarms(store):
            with store.transaction():
                end_removed(store, (), time.time_ns())
        return outdated_sessions(store)


def _is_graded(spec: GradeSpec, watching: WatchOptions) -> bool:
    """Return whether there is anything to grade by."""
    return bool(spec.dataset or spec.gates.requested or spec.gates.in_force or watching.alerts)


def _watch(
    spec: GradeSpec,
    db: Path,
    options: WatchOptions,
    callbacks: Callbacks,
    stop: threading.Event,
    watched: _Watched,
    on_failure: Callable[[], None],
) -> None:
    try:
        watch(spec, db, options, callbacks, stop, on_look=watched.looked)
    except BaseException as error:  # noqa: BLE001 (the main thread raises it)
        watched.failure = error
        on_failure()


def _config(
    options: ServeOptions, receiver: Receiving, watched: _Watched, shown: ViewedDatabase
) -> uvicorn.Config:
    """Return the configuration of the server of the pages."""
    observe, metrics = _metrics(receiver, watched)
    site = ServedSite(
        options.allowed_hosts,
        options.golden,
        lambda: late(watched.overdue_s, watched.summary.messages, receiver.counters.busy_lately()),
    )

    def health() -> Mapping[str, object]:
        collected = receiver.health()
        return {"status": collected["status"], "receive": collected, "grade": watched.to_json()}

    def readiness() -> Mapping[str, object]:
        collected = receiver.readiness()
        problem = collected["reason"] or options.keys.problem() or shown.upgrading or watched.problem or None
        return {
            "status": "not ready" if problem else "ready",
            "reason": problem,
            "receive": collected,
            "grade": watched.to_json(),
        }

    entrance = Entrance(
        create_app(shown, site=site),
        options.keys,
        health=health,
        readiness=readiness,
        metrics=metrics,
        observe=observe,
        base=options.base,
        proxy=options.proxy,
        secure=options.is_secure,
        is_open=lambda: options.proxy.header is None and not options.keys.is_needed(),
    )
    http = limited_protocol(options.receiver.limits)
    return http_config(entrance, _GRACE_S, http=http, lifespan="off")


def late(overdue_s: float, messages: Mapping[str, Counts], busy: int) -> list[str]:
    """Return what the first page says of a server that is late, one line each.

    `overdue_s` is the age of the oldest session that is due, `messages` are those that are not delivered, by
    kind, `busy` is the number of answers with 503 in the last `BUSY_S` seconds.
    """
    lines = []
    if overdue_s >= _OVERDUE_S:
        lines.append(f"A session has been due to be graded for {overdue_s / 60:.0f} minutes.")
    for kind, (unsent, given_up) in sorted(messages.items()):
        parts = [f"{unsent:,} not delivered yet"] * bool(unsent) + [f"{given_up:,} given up"] * bool(given_up)
        if parts:
            lines.append(f"Messages by {kind}: {', '.join(parts)}.")
    if busy:
        one = "request was" if busy == 1 else "requests were"
        lines.append(
            f"{busy:,} {one} answered with 503 (try again later) in the last {BUSY_S // 60} minutes."
        )
    return lines


def _metrics(
    receiver: Receiving, watched: _Watched
) -> tuple[Callable[[float, int], None], Callable[[], bytes]]:
    """Return what notes the seconds and the status of an answer, and what returns all metrics as text."""
    registry = receiver.counters.registry
    seconds = Histogram("spangrade_page_seconds", "How long an answer of the pages took.", registry=registry)
    verdicts = Gauge(
        "spangrade_graded_sessions", "Sessions graded since the start.", ["verdict"], registry=registry
    )
    waiting = Gauge(
        "spangrade_waiting_sessions", "Sessions that wait until they are idle.", registry=registry
    )
    failing = Gauge("spangrade_watch_failing", "1 if the last look of watch failed.", registry=registry)
    grades = Gauge("spangrade_watch_grades", "1 if anything is graded.", registry=registry)
    looks = Gauge("spangrade_watch_looks", "Looks of watch since the start.", registry=registry)
    overdue = Gauge(
        "spangrade_overdue_seconds",
        "For how long the oldest session that is due to be graded has been so.",
        registry=registry,
    )
    undelivered = Gauge(
        "spangrade_undelivered_messages",
        "Messages to others that are not delivered: waiting for the next attempt, or given up.",
        ["kind", "state"],
        registry=registry,
    )
    alarms = Gauge("spangrade_alarms", "Alarms that are on.", registry=registry)
    registry.register(TotalsCollector(lambda: watched.summary.totals, lambda: watched.summary.failures))

    def text() -> bytes:
        now = watched.summary
        for verdict, number in now.verdicts.items():
            verdicts.labels(str(verdict)).set(number)
        waiting.set(now.waiting)
        failing.set(watched.problem is not None)
        grades.set(watched.grades)
        looks.set(watched.looks)
        alarms.set(now.alarms)
        overdue.set(watched.overdue_s)
        for kind, counts in now.messages.items():
            undelivered.labels(kind, "waiting").set(counts.waiting)
            undelivered.labels(kind, "given_up").set(counts.given_up)
        return receiver.counters.text()

    def observe(took_s: float, status: int) -> None:
        seconds.observe(took_s)
        if status == 503:
            receiver.counters.note_busy("pages")

    return observe, text
