"""Uvicorn with the settings of this package, and the sockets that it serves."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

from spangrade.tracer.base.errors import InputError

HOST = "127.0.0.1"
_GRACE_S = 2  # for requests that are not finished


def http_config(app: Any, grace_s: int, **more: Any) -> uvicorn.Config:
    """Return the configuration of a server that logs nothing itself and names no software.

    It gives requests that are not finished `grace_s` seconds when it stops.
    """
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=grace_s,
        **more,
    )


class QuietServer(uvicorn.Server):
    """Uvicorn without its signal handlers, which would end the process before the spool is loaded."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens at an address, 0 for any free port. Raises InputError if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Name the protocol: otherwise asyncio leaves Nagle's algorithm on, and an answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)  # requests wait until the server takes them
    except OSError as error:
        listener.close()
        raise InputError(f"{host}:{port}: cannot listen: {error.strerror}; name another {option}") from None
    return listener


def serve_app(app: Any, listener: socket.socket) -> None:
    """Serve an application at a socket until SIGINT or SIGTERM."""
    with suppress(KeyboardInterrupt):  # uvicorn ends orderly, then raises the signal once more
        uvicorn.Server(http_config(app, _GRACE_S)).run([listener])
