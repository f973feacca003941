"""The server of `spangrade view`: settings, sockets and shutdown."""

from __future__ import annotations

from collections.abc import Callable

from spangrade.evaluator.apps.server.pages.app import create_app
from spangrade.evaluator.apps.server.pages.database import Viewed
from spangrade.evaluator.apps.server.pages.labelling import Reviewer
from spangrade.tracer.base.http_server import HOST, serve_app
from spangrade.tracer.base.sockets import listen


def serve(
    database: Viewed,
    port: int,
    ready: Callable[[str], None],
    reviewer: Reviewer | None = None,
) -> None:
    """Serve pages of a database or a lake at the loopback until SIGINT or SIGTERM; port 0 is any free one.

    `ready` is called with the address; a `reviewer` may label sessions. Raises InputError if the port is in
    use, StoreError if what they show cannot be read.
    """
    with listen(HOST, port) as listener:
        database.prepare()
        ready(f"http://{HOST}:{listener.getsockname()[1]}/")
        try:
            serve_app(create_app(database, reviewer), listener)
        finally:
            database.stop()
