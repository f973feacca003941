"""The server of `spangrade view`: settings, sockets and shutdown."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp

from spangrade.evaluator.view.app import create_app
from spangrade.evaluator.view.database import Viewed
from spangrade.evaluator.view.labelling import Reviewer
from spangrade.tracer.base.http_server import http_config, listen

HOST = "127.0.0.1"
_GRACE_S = 2  # for requests that are not finished


def serve(
    database: Viewed,
    port: int,
    ready: Callable[[str], None],
    on_progress: Callable[[str], None] = lambda _: None,
    reviewer: Reviewer | None = None,
) -> None:
    """Serve pages of a database or a lake at the loopback until SIGINT or SIGTERM; port 0 is any free one.

    `ready` is called with the address; a `reviewer` may label sessions. Raises InputError if the port is in
    use, StoreError if what they show cannot be read.
    """
    with listen(HOST, port) as listener:
        database.prepare(on_progress)
        ready(f"http://{HOST}:{listener.getsockname()[1]}/")
        try:
            serve_app(create_app(database, reviewer), listener)
        finally:
            database.stop()


def serve_app(app: ASGIApp, listener: socket.socket) -> None:
    """Serve an application at a socket until SIGINT or SIGTERM."""
    with suppress(KeyboardInterrupt):  # uvicorn ends orderly, then raises the signal once more
        uvicorn.Server(http_config(app, _GRACE_S)).run([listener])
