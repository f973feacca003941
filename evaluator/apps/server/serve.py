"""Run a team's server: the receiver with its loader, `watch` and the pages, as the parts of one process.

They take turns at the database file (`tracer/store/turns.py`), which is open in short windows only: other
processes can write meanwhile, as they can beside a receiver alone.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from prometheus_client import Gauge, Histogram

from spangrade.evaluator.apps.server.entrance import NO_PROXY, Entrance, Proxy, ServedSite
from spangrade.evaluator.apps.server.grade.alerts import end_removed
from spangrade.evaluator.apps.server.grade.deliveries import Counts
from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.apps.server.grade.prometheus import TotalsCollector
from spangrade.evaluator.apps.server.grade.totals import Key, Total, read_totals
from spangrade.evaluator.apps.server.grade.watch import WatchSummary, watch
from spangrade.evaluator.apps.server.pages.app import create_app
from spangrade.evaluator.apps.server.pages.database import ViewedDatabase
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.update import outdated_sessions
from spangrade.evaluator.grading.spec import GradeSpec
from spangrade.evaluator.results.alarms import count_alarms
from spangrade.tracer.base.errors import InputError, StoreError
from spangrade.tracer.base.http_server import QuietServer, http_config, listen
from spangrade.tracer.base.loopback import is_loopback
from spangrade.tracer.receiver.connections import limited_protocol
from spangrade.tracer.receiver.counters import BUSY_S, Counters
from spangrade.tracer.receiver.keys import KeyFile
from spangrade.tracer.receiver.server import (
    ReceiverSettings,
    Receiving,
    certificate_of,
    receive,
    shown_host,
)
from spangrade.tracer.store import Store
from spangrade.tracer.store.turns import taking_turns

_log = logging.getLogger("spangrade")
_GRACE_S = 10
_OVERDUE_S = 300  # after which the first page says that a session waits to be graded


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where the pages of a server are and to whom: `port` 0 is any; `hosts` are names beside the address.

    `base` is the path under which the pages are, empty or such as `/spangrade`. The parts are those that run:
    a server that `receives`, `grades` and `shows` pages does all in one process.
    """

    receiver: ReceiverSettings
    keys: KeyFile
    port: int = 4319
    base: str = ""
    public_url: str | None = None
    hosts: tuple[str, ...] = ()
    proxy: Proxy = NO_PROXY
    golden: Path | None = None
    receives: bool = True
    grades: bool = True
    shows: bool = True

    def check(self) -> None:
        """Raise InputError for options that are unsafe or do not fit."""
        if self.public_url is not None:
            parts = urlsplit(self.public_url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InputError(
                    f"public_url: expected one such as https://spans.example.com, found {self.public_url!r}"
                )
            if self.receiver.allow_anonymous:
                raise InputError(
                    "public_url: expected keys (spangrade serve keys create), not --allow-anonymous"
                )
        if self.is_exposed and not self.receiver.allow_anonymous and not self.keys.is_needed():
            raise InputError(
                f"others may reach {self.public_url or self.receiver.host}: create a key "
                "(spangrade serve keys create NAME --role admin), or give --allow-anonymous"
            )
        if (problem := self.keys.problem()) is not None:
            raise InputError(problem)
        self.receiver.check()
        if self.base and (not self.base.startswith("/") or self.base.endswith("/") or "//" in self.base):
            raise InputError(f"base_path: expected a path such as /spangrade, found {self.base!r}")

    @property
    def is_exposed(self) -> bool:
        """Whether others than the users of this machine may reach the server."""
        others = self.public_url is not None or self.hosts or self.proxy.networks
        return bool(others) or not is_loopback(self.receiver.host)

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The hosts by which the pages may be asked for, beside this machine's own."""
        public = None if self.public_url is None else urlsplit(self.public_url).hostname
        own = self.receiver.host if self.receiver.host not in ("0.0.0.0", "::") else None  # noqa: S104 (compared)
        return frozenset(one.lower() for one in (*self.hosts, public, own) if one)

    @property
    def public_address(self) -> str | None:
        """The address of the pages for others, with the path under which they are."""
        if self.public_url is None:
            return None
        url = self.public_url.rstrip("/")
        return url if url.endswith(self.base) else url + self.base

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the pages over TLS."""
        public = "" if self.public_url is None else urlsplit(self.public_url).scheme
        return self.receiver.certificate is not None or public == "https"


class _Watched:
    """What `watch` did, for health and metrics."""

    def __init__(self, db: Path, *, grades: bool) -> None:
        self._db = db
        self.grades = grades
        self.totals: Mapping[Key, Total] = {}
        self._totals_of: int | None = None  # the sessions that were graded when these were read
        self.alarms = 0
        self.summary = WatchSummary({}, 0, 0, {})
        self.problem: str | None = None
        self.looks = 0
        self.failure: BaseException | None = None

    def looked(self, problem: str | None, summary: WatchSummary | None) -> None:
        self.looks += 1
        self.problem = problem
        self.summary = summary or self.summary
        graded = sum(self.summary.verdicts.values())
        if problem is not None or not self._db.exists():
            return
        try:
            with Store.open(self._db, read_only=True) as store:
                self.alarms = count_alarms(store)
                if graded != self._totals_of:
                    self.totals, self._totals_of = read_totals(store), graded
        except StoreError:  # another process has it; the next look reads it
            return

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


def serve(
    options: ServeOptions,
    spec: GradeSpec,
    watching: WatchOptions,
    callbacks: Callbacks = DEFAULT,
    ready: Callable[[str, str, str], None] = lambda pages, http, grpc: None,  # noqa: ARG005
) -> None:
    """Serve until SIGTERM or SIGINT; then finish what is open, load the spool, and return.

    `ready` is called with the addresses of the pages, and for OTLP over HTTP and over gRPC. Nothing is graded
    by a specification without a dataset and gates, and without alerts. Raises InputError or StoreError if it
    cannot start.
    """
    options.check()
    db = options.receiver.db
    with taking_turns(db):
        with Store.open(db, wait_s=5.0) as store:  # fail now if it cannot be written
            outdated = outdated_sessions(store)
            if (
                options.grades and not _is_graded(spec, watching) and count_alarms(store)
            ):  # the settings had alerts before
                with store.transaction():
                    end_removed(store, (), time.time_ns())
        asyncio.run(_serve(options, spec, watching, callbacks, ready, outdated))


def _is_graded(spec: GradeSpec, watching: WatchOptions) -> bool:
    """Return whether there is anything to grade by."""
    return bool(spec.dataset or spec.gates.requested or spec.gates.in_force or watching.alerts)


async def _serve(
    options: ServeOptions,
    spec: GradeSpec,
    watching: WatchOptions,
    callbacks: Callbacks,
    ready: Callable[[str, str, str], None],
    outdated: int,
) -> None:
    loop = asyncio.get_running_loop()
    stop, stop_watching = asyncio.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watched = _Watched(options.receiver.db, grades=options.grades and _is_graded(spec, watching))
    shown = ViewedDatabase(options.receiver.db, callbacks.configured)
    with _listener(options) as listener:
        started: asyncio.Future[Receiving] = loop.create_future()
        receives = receive if options.receives else _receive_nothing
        receiving = asyncio.create_task(receives(options.receiver, started.set_result, stop))
        starting: set[asyncio.Future[Any]] = {receiving, started}
        await asyncio.wait(starting, return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            receiving.result()
            return
        receiver = started.result()
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
        await asyncio.wait({stopped, receiving, *served}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        stop_watching.set()
        pages.should_exit = True
        for serving in served:
            await serving
        await asyncio.to_thread(shown.stop)
        if watched.grades:
            await asyncio.to_thread(thread.join)
        await receiving  # the last: it loads what was acknowledged meanwhile
        await stopped
    if watched.failure is not None:
        raise watched.failure
    _log.info("stopped")


def _listener(options: ServeOptions) -> AbstractContextManager[socket.socket | None]:
    """Return what listens for the pages, None if no pages are served."""
    return listen(options.receiver.host, options.port) if options.shows else nullcontext()


async def _receive_nothing(
    settings: ReceiverSettings, ready: Callable[[Receiving], None], stop: asyncio.Event
) -> None:
    """Stand for the receiver where there is none, until `stop` is set."""
    certificate = certificate_of(settings)
    state: dict[str, object] = {"status": "ok", "reason": None}
    tls = None if certificate is None else certificate.for_http()
    ready(Receiving("", "", lambda: state, lambda: state, Counters(), tls))
    await stop.wait()


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
    registry.register(TotalsCollector(lambda: watched.totals))

    def text() -> bytes:
        now = watched.summary
        for verdict, number in now.verdicts.items():
            verdicts.labels(str(verdict)).set(number)
        waiting.set(now.waiting)
        failing.set(watched.problem is not None)
        grades.set(watched.grades)
        looks.set(watched.looks)
        alarms.set(watched.alarms)
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
