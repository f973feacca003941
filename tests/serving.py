"""The pages of `spangrade view` over HTTP, for tests."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from starlette.types import ASGIApp

from spangrade.evaluator.apps.server.pages.app import create_app
from spangrade.evaluator.apps.server.pages.database import Viewed, ViewedDatabase
from spangrade.evaluator.apps.server.pages.labelling import Reviewer
from spangrade.evaluator.apps.server.pages.server import HOST
from spangrade.tracer.base.sockets import listen


class Answer(NamedTuple):
    """What a server answers."""

    status: int
    headers: dict[str, str]
    text: str


class Served:
    """The pages of a database at a port of the loopback."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}"

    def get(self, path: str, *, method: str = "GET", body: str | None = None, **headers: str) -> Answer:
        """Return the answer to a request with exactly this path."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        try:
            connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            response = connection.getresponse()
            text = response.read().decode("utf-8")
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, text)
        finally:
            connection.close()


@contextmanager
def serving(shown: Path | Viewed, reviewer: Reviewer | None = None) -> Iterator[Served]:
    """Serve the pages of a database file, or of what else has pages, to a person who may label."""
    database = ViewedDatabase(shown) if isinstance(shown, Path) else shown
    database.prepare()
    try:
        with serving_app(create_app(database, reviewer)) as served:
            yield served
    finally:
        database.stop()


@contextmanager
def serving_app(app: ASGIApp, **options: Any) -> Iterator[Served]:
    """Serve an application in a thread, with further options of uvicorn."""
    listener = listen(HOST, 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Served(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
