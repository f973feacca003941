"""Uvicorn with the settings of this package."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

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


def serve_app(app: Any, listener: socket.socket) -> None:
    """Serve an application at a socket until SIGINT or SIGTERM."""
    with suppress(KeyboardInterrupt):  # uvicorn ends orderly, then raises the signal once more
        uvicorn.Server(http_config(app, _GRACE_S)).run([listener])
