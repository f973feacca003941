"""An S3 that answers as it likes: in front of moto's, which keeps the objects."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit


class Request(NamedTuple):
    """A request to S3: `target` is its path with its query."""

    method: str
    target: str
    headers: dict[str, str]


class Answer(NamedTuple):
    """An answer of S3; with `length` it claims a body of that many bytes."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    length: int | None = None


class HostileS3:
    """What came in, and `lie(request, answer)`: what is answered in place of the true answer."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []
        self.lie: Callable[[Request, Answer], Answer] = lambda _, true: true


@contextmanager
def hostile_s3(behind: str) -> Iterator[HostileS3]:
    """Run it on a free port of the loopback, in front of a true S3."""
    host = urlsplit(behind).netloc

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            request = Request(self.command, self.path, headers)
            storage.requests.append(request)
            connection = http.client.HTTPConnection(host)
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            true = Answer(response.status, response.read(), tuple(response.getheaders()))
            connection.close()
            answer = storage.lie(request, true)
            self.send_response(answer.status)
            for name, value in answer.headers:
                if name.lower() not in (
                    "content-length",
                    "transfer-encoding",
                    "connection",
                    "server",
                    "date",
                ):
                    self.send_header(name, value)
            length = len(answer.body) if answer.length is None else answer.length
            if self.command == "HEAD" and answer.status == true.status:
                length = int(dict(response.getheaders()).get("Content-Length") or 0)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(b"" if self.command == "HEAD" else answer.body)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 (names of the base class)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    storage = HostileS3(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield storage
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
