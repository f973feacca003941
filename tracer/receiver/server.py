"""Running the receiver: its settings, its sockets, its end."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import uvicorn

from spangrade.tracer.errors import InputError
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.grpc import server as grpc_server
from spangrade.tracer.receiver.http import application
from spangrade.tracer.receiver.ingest import Intake, Record
from spangrade.tracer.receiver.limits import Limits
from spangrade.tracer.receiver.loader import Loader
from spangrade.tracer.receiver.queue import Backlog
from spangrade.tracer.store import Store

_log = logging.getLogger("spangrade")
_GRACE_S = 10


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the receiver listens, what it asks of a client, and how much it takes. Port 0 is any free one."""

    db: Path
    host: str = "127.0.0.1"
    http_port: int = 4318
    grpc_port: int = 4317
    token: str | None = None
    open_to_all: bool = False  # on other than loopback, without a token
    certificate: Path | None = None
    key: Path | None = None
    limits: Limits = field(default_factory=Limits)
    redact: Callable[[Record], Record] | None = None
    chore: Callable[[Path], None] | None = None  # once a day, between two windows of the loader

    def check(self) -> None:
        """Raise InputError for settings that cannot be meant."""
        if not is_loopback(self.host) and not self.token and not self.open_to_all:
            raise InputError(
                f"--host {self.host} is open to other machines: set a token ($SPANGRADE_TOKEN), "
                "or say --allow-anonymous"
            )
        if (self.certificate is None) != (self.key is None):
            raise InputError("--tls-cert and --tls-key belong together: give both or none")
        for path in filter(None, (self.certificate, self.key)):
            if not path.is_file():
                raise InputError(f"{path}: no such file")


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach what listens on a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def collect(settings: Settings, ready: Callable[[str, str], None]) -> None:
    """Receive until SIGTERM or SIGINT; then let requests end, load what is left, and return.

    `ready` is called with the addresses for HTTP and gRPC. Raises InputError or StoreError where it cannot
    start.
    """
    settings.check()
    Store.open(settings.db, wait_s=5.0).close()  # whether it can be written at all is to be known now
    asyncio.run(_collect(settings, ready))


async def _collect(settings: Settings, ready: Callable[[str, str], None]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    listener = _listener(settings)
    backlog = Backlog(settings.db, settings.limits.spool_bytes)
    counters = Counters()
    intake = Intake(backlog, settings.limits, counters, settings.redact)
    loader = Loader(settings.db, backlog, counters, chore=settings.chore)

    def health() -> dict[str, object]:
        status = "spool full" if backlog.full() else "ok" if loader.is_alive() else "loader stopped"
        return {"status": status, "spool_bytes": backlog.size(), "trouble": loader.trouble}

    http = _Server(
        uvicorn.Config(
            application(intake, settings.token, health),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
        )
    )
    over_grpc = grpc_server(intake, settings.token)
    grpc_port = _bind(over_grpc, settings)
    await over_grpc.start()
    serving = asyncio.create_task(http.serve([listener]))
    loader.start()
    scheme = "https" if settings.certificate else "http"
    ready(
        f"{scheme}://{_shown(settings.host)}:{listener.getsockname()[1]}",
        f"{_shown(settings.host)}:{grpc_port}",
    )
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({stopped, serving}, return_when=asyncio.FIRST_COMPLETED)
    http.should_exit = True
    await asyncio.gather(serving, over_grpc.stop(_GRACE_S))
    stopped.cancel()
    intake.close()
    backlog.close()
    await asyncio.to_thread(loader.finish, _GRACE_S)


class _Server(uvicorn.Server):
    """Uvicorn without its signals: it would end the process by them, and we have something to do first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listener(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With its protocol named: else asyncio does not switch Nagle's algorithm off, and an answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.http_port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise InputError(f"{settings.host}:{settings.http_port}: cannot listen: {error.strerror}") from None
    return listener


def _bind(server: grpc.aio.Server, settings: Settings) -> int:
    address = f"{_shown(settings.host)}:{settings.grpc_port}"
    try:
        if settings.certificate and settings.key:
            pair = (settings.key.read_bytes(), settings.certificate.read_bytes())
            return int(server.add_secure_port(address, grpc.ssl_server_credentials([pair])))
        return int(server.add_insecure_port(address))
    except RuntimeError:
        raise InputError(f"{address}: cannot listen: the address is in use, or not this machine's") from None


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
