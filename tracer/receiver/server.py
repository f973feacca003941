"""Run the receiver: settings, sockets, the limits of connections, shutdown."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import grpc
from uvicorn.protocols.http.h11_impl import H11Protocol

from spangrade.tracer.base.errors import InputError, SpangradeError
from spangrade.tracer.base.http_server import QuietServer, http_config
from spangrade.tracer.base.sockets import is_loopback, listen
from spangrade.tracer.receiver.access import Access
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.grpc import server as grpc_server
from spangrade.tracer.receiver.http import application
from spangrade.tracer.receiver.ingest import Ingest, Record
from spangrade.tracer.receiver.limits import Limits
from spangrade.tracer.receiver.loader import Lander, Loader
from spangrade.tracer.receiver.queue import SpoolQueue
from spangrade.tracer.store import Store
from spangrade.tracer.store.object_storage import files_in, storage_connection, storage_url

_log = logging.getLogger("spangrade")
_GRACE_S = 10
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


class Receiving(NamedTuple):
    """A receiver that has started: its addresses for HTTP and gRPC, its states as JSON, its counters."""

    http: str
    grpc: str
    health: Callable[[], dict[str, object]]
    readiness: Callable[[], dict[str, object]]
    counters: Counters
    tls: ssl.SSLContext | None  # whose certificate is renewed on SIGHUP


class Reread(NamedTuple):
    """The token, certificate and redaction that a receiver uses from now on, read again from files."""

    token: str | None
    redact: Callable[[Record], Record] | None


@dataclass(frozen=True, slots=True)
class ReceiverSettings:
    """The receiver's addresses, what it requires of clients, and its limits. Port 0 is any free port."""

    db: Path
    host: str = "127.0.0.1"
    http_port: int = 4318
    grpc_port: int = 4317
    token: str | None = None
    allow_anonymous: bool = False  # clients on other machines need no token
    allows: Callable[[str, str], bool | None] | None = None  # in place of a token; see `Access`
    certificate: Path | None = None
    key: Path | None = None
    limits: Limits = field(default_factory=Limits)
    redact: Callable[[Record], Record] | None = None
    reread: Callable[[], Reread] | None = None  # on SIGHUP
    maintenance_task: Callable[[Path], None] | None = None  # once a day, between two windows of the loader
    landing: str | None = None  # of a lake, in place of a database: `db` only says where the spool is
    segment_s: float = 60.0  # how long records wait for others in one landing file
    listener: socket.socket | None = None  # for HTTP, if it was opened before

    def check(self) -> None:
        """Raise InputError for settings that are unsafe or incomplete, and without signals of POSIX."""
        if not hasattr(signal, "SIGHUP"):
            raise InputError(
                "serve is ended and reloaded by signals of POSIX, which this system does not have"
            )
        is_open = not self.token and (self.allows is None or self.allows("", "send") is None)
        if not is_loopback(self.host) and is_open and not self.allow_anonymous:
            raise InputError(
                f"host {self.host} is open to other machines: set a token ($SPANGRADE_TOKEN), "
                "or give --allow-anonymous"
            )
        if (self.certificate is None) != (self.key is None):
            raise InputError("tls_cert and tls_key belong together: give both or none")
        if not self.db.absolute().parent.is_dir():
            raise InputError(f"{self.db.parent}: no such folder: the spool is made in it")
        for path in filter(None, (self.certificate, self.key)):
            if not path.exists():
                raise InputError(f"{path}: no such file")


def landing_folder(text: str) -> str:
    """Return the URL of a landing folder. Raises InputError if a text is not one."""
    return storage_url("lake", text)


def collect(settings: ReceiverSettings, ready: Callable[[str, str], None]) -> None:
    """Receive until SIGTERM or SIGINT; then finish the open requests, load the spool, and return.

    `ready` is called with the addresses for HTTP and gRPC. Raises InputError or StoreError if the receiver
    cannot start.
    """
    settings.check()
    if settings.landing is None:
        Store.open(settings.db, wait_s=5.0).close()  # fail now if it cannot be written
    else:
        with storage_connection(threads=1) as connection:  # the same
            files_in(connection, settings.landing)
    asyncio.run(_collect(settings, ready))


async def _collect(settings: ReceiverSettings, ready: Callable[[str, str], None]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await receive(settings, lambda one: ready(one.http, one.grpc), stop)
    _log.info("stopped")


async def receive(
    settings: ReceiverSettings, ready: Callable[[Receiving], None], stop: asyncio.Event
) -> None:
    """Receive until `stop` is set, or the server for HTTP ends; then finish as `collect` does."""
    listener = settings.listener or listen(settings.host, settings.http_port, "--http-port")
    queue = SpoolQueue(settings.db, settings.limits.spool_bytes)
    counters = Counters()
    ingest = Ingest(queue, settings.limits, counters, settings.redact)
    loader = _loader(settings, queue, counters)

    access = Access(settings.token, is_loopback(settings.host), settings.allows)

    def health() -> dict[str, object]:
        status = "spool full" if queue.full() else "ok" if loader.is_alive() else "loader stopped"
        return {
            "status": status,
            "spool_bytes": queue.size(),
            "last_error": loader.last_error,
            "last_damage": loader.last_damage,
        }

    def readiness() -> dict[str, object]:
        problem = "the spool is full" if queue.full() else loader.problem()
        loaded_ns = loader.last_load_ns
        return {
            "status": "not ready" if problem else "ready",
            "reason": problem,
            "spool_bytes": queue.size(),
            "spool_age_s": queue.age_s(),
            "last_load": None
            if loaded_ns is None
            else datetime.fromtimestamp(loaded_ns / 1e9, UTC).isoformat(),
        }

    http = QuietServer(
        http_config(
            application(ingest, access, health, readiness),
            _GRACE_S,
            http=limited_protocol(settings.limits),
            lifespan="off",
        )
    )
    certificate = certificate_of(settings)
    http.config.load()
    http.config.ssl = certificate.for_http() if certificate else None
    over_grpc = grpc_server(ingest, access)
    grpc_port = _bind(over_grpc, settings, certificate)
    await over_grpc.start()

    def reload() -> None:
        try:
            renewed = certificate_of(settings)
            reread = settings.reread and settings.reread()
            if certificate and renewed and http.config.ssl:
                renewed.load_into(http.config.ssl)
                certificate.pair = renewed.pair
        except (OSError, SpangradeError) as error:
            _log.error("SIGHUP: the token, the certificate and the settings stay as they were: %s", error)
            return
        if reread:
            access.token, ingest.redact = reread
        _log.info("SIGHUP: read the token, the certificate and the settings again")

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    serving = asyncio.create_task(http.serve([listener]))
    loader.start()
    scheme = "https" if settings.certificate else "http"
    ready(
        Receiving(
            f"{scheme}://{shown_host(settings.host)}:{listener.getsockname()[1]}",
            f"{shown_host(settings.host)}:{grpc_port}",
            health,
            readiness,
            counters,
            http.config.ssl,
        )
    )
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({stopped, serving}, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.to_thread(loader.stop, _GRACE_S)  # while the ports are open: what is left then is little
    http.should_exit = True
    await asyncio.gather(serving, over_grpc.stop(_GRACE_S))
    stopped.cancel()
    ingest.close()
    queue.close()
    await asyncio.to_thread(loader.stop, 0.0)


@dataclass(slots=True)
class Certificate:
    """The private key and the certificate that new connections are served with, as they were read."""

    pair: tuple[bytes, bytes]

    @classmethod
    def read(cls, certificate: Path, key: Path) -> Self:
        """Return them from their files. Raises InputError if they cannot be read, or are not a pair."""
        try:
            read = cls((key.read_bytes(), certificate.read_bytes()))
            # In a context of its own: a key that does not fit would take away that of the one in use.
            read.for_http()
        except ssl.SSLError as error:
            reason = (error.reason or "not PEM").lower().replace("_", " ")
            raise InputError(f"{certificate} and {key} are not a certificate and its key: {reason}") from None
        except OSError as error:
            raise InputError(f"{certificate}, {key}: cannot be read: {error.strerror}") from None
        return read

    def for_http(self) -> ssl.SSLContext:
        """Return a context that serves them."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let a context serve them, without reading their files again, which may have changed since."""
        key, certificate = self.pair
        # A context takes only paths: those of two files without a name.
        with _file_of(certificate) as certificate_file, _file_of(key) as key_file:
            context.load_cert_chain(
                f"/dev/fd/{certificate_file.fileno()}", f"/dev/fd/{key_file.fileno()}", password=""
            )

    def for_grpc(self) -> grpc.ServerCertificateConfiguration:
        """Return them as gRPC takes them for a new connection."""
        return grpc.ssl_server_certificate_configuration([self.pair])


def _file_of(content: bytes) -> IO[bytes]:
    """Return an open file of a content that is for this user alone and is gone when it is closed."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    file.write(content)
    file.seek(0)  # also writes it: what reads the path has a buffer of its own
    return file


def certificate_of(settings: ReceiverSettings) -> Certificate | None:
    """Return the certificate of the settings, None without one. Raises InputError for a bad one."""
    if settings.certificate is None or settings.key is None:
        return None
    return Certificate.read(settings.certificate, settings.key)


def _loader(settings: ReceiverSettings, queue: SpoolQueue, counters: Counters) -> Loader:
    if settings.landing is None:
        return Loader(settings.db, queue, counters, maintenance_task=settings.maintenance_task)
    return Lander(settings.db, queue, counters, settings.landing, segment_s=settings.segment_s)


def _bind(server: grpc.aio.Server, settings: ReceiverSettings, certificate: Certificate | None) -> int:
    address = f"{shown_host(settings.host)}:{settings.grpc_port}"
    try:
        if certificate:
            credentials = grpc.dynamic_ssl_server_credentials(certificate.for_grpc(), certificate.for_grpc)
            return int(server.add_secure_port(address, credentials))
        return int(server.add_insecure_port(address))
    except RuntimeError:
        raise InputError(
            f"{address}: cannot listen: the address is in use, or does not belong to this machine"
        ) from None


def shown_host(host: str) -> str:
    """Return a host as it is in a URL."""
    return f"[{host}]" if ":" in host else host


def limited_protocol(limits: Limits) -> type[H11Protocol]:
    """Return uvicorn's HTTP protocol with limits: it has none for a connection that sends nothing."""

    class LimitedProtocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(_BUSY)
                transport.close()
            else:
                self._wait_for_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self._wait_for_headers()  # of the next request on this connection
            else:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def shutdown(self) -> None:
            is_idle = self.cycle is None or self.cycle.response_complete
            if not self.transport.is_closing():  # closed twice, one over TLS can be neither asked nor aborted
                super().shutdown()
            if is_idle and not self.transport.get_write_buffer_size():
                self.transport.abort()  # over TLS, closing waits for the answer of the client, which is idle

        def _wait_for_headers(self) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(limits.headers_s, self._give_up)

        def _give_up(self) -> None:
            if not self.transport.is_closing():
                self.transport.close()

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return LimitedProtocol
