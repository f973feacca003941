"""Run a team's server: the receiver with its loader, `watch` and the pages, as the parts of one process.

They take turns at the database file (`tracer/store/locks.py`), which is open in short windows only: other
processes can write meanwhile, as they can beside a receiver alone. Exporters give a batch up after ten
seconds, also while a server starts again: what it receives with is imported and open first, and closed last.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.sockets import is_loopback, listen
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.keys import KeyFile, Role
from spangrade.tracer.receiver.server import ReceiverSettings, Receiving, certificate_of, receive
from spangrade.tracer.store import Store
from spangrade.tracer.store.locks import taking_turns

if TYPE_CHECKING:
    from spangrade.evaluator.apps.server.grade.options import WatchOptions
    from spangrade.evaluator.derive.sync.intake import Callbacks
    from spangrade.evaluator.grading.spec import GradeSpec

_log = logging.getLogger("spangrade")

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ServedBy(NamedTuple):
    """What a server grades by, when, and how it derives sessions."""

    spec: GradeSpec
    watching: WatchOptions
    callbacks: Callbacks


class Proxy(NamedTuple):
    """A proxy that logs people in: its addresses, the header with their name, and their role."""

    networks: Sequence[_Network]
    header: str | None
    role: Role = Role.READ

    @classmethod
    def of(cls, addresses: Sequence[str], header: str | None, role: Role) -> Proxy:
        """Return a proxy at addresses or networks. Raises InputError for what is none."""
        try:
            networks = [ipaddress.ip_network(one) for one in addresses]
        except ValueError as error:
            raise InputError(f"trusted_proxy: {error}") from None
        if header is not None and not networks:
            raise InputError("login_header is what a proxy says: expected trusted_proxy, too")
        return cls(networks, header, role)

    def trusts(self, address: str) -> bool:
        """Return whether a request comes from it."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self.networks)


NO_PROXY = Proxy((), None)


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


def serve(
    options: ServeOptions,
    grading: Callable[[], ServedBy],
    ready: Callable[[str, str, str], None] = lambda pages, http, grpc: None,  # noqa: ARG005
) -> None:
    """Serve until SIGTERM or SIGINT; then finish what is open, load the spool, and return.

    `grading` is called once spans are received, and what it needs is imported then. `ready` is called with
    the addresses of the pages, and for OTLP over HTTP and over gRPC. Nothing is graded by a specification
    without a dataset and gates, and without alerts. Raises InputError or StoreError if it cannot start.
    """
    options.check()
    db = options.receiver.db
    with taking_turns(db):
        Store.open(db, wait_s=5.0).close()  # fail now if it cannot be written
        asyncio.run(_serve(options, grading, ready))


async def _serve(
    options: ServeOptions, grading: Callable[[], ServedBy], ready: Callable[[str, str, str], None]
) -> None:
    loop = asyncio.get_running_loop()
    stop, stop_receiving = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with _listener(options) as listener:
        started: asyncio.Future[Receiving] = loop.create_future()
        receives = receive if options.receives else _receive_nothing
        receiving = asyncio.create_task(receives(options.receiver, started.set_result, stop_receiving))
        starting: set[asyncio.Future[Any]] = {receiving, started}
        await asyncio.wait(starting, return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            receiving.result()
            return
        try:
            beside = await asyncio.to_thread(import_module, "spangrade.evaluator.apps.server.serve")
            by = await asyncio.to_thread(grading)
            await beside.serve_beside(options, by, started.result(), receiving, listener, stop, ready)
        finally:
            stop_receiving.set()
            await receiving  # the last: it loads what was acknowledged meanwhile
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
