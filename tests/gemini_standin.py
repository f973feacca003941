"""A local stand-in of the Gemini API: real HTTP on loopback, with the answers that a test sets."""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from spangrade.evaluator.judge import GeminiJudge, same_meaning

if TYPE_CHECKING:
    from google.genai.types import HttpOptions

MODEL = "gemini-2.5-flash"
# 1,000 input tokens at 0.30 USD and 20 + 80 (answer and thoughts) output tokens at 2.50 USD per million.
PRICE = pytest.approx(0.00055)
QUESTION = same_meaning("Hi there", "Hello")
# Loopback has no TLS, and to load certificates takes a client 20 ms.
_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
PATIENCE_S = 60.0  # so that a test that is wrong ends
USAGE = {
    "promptTokenCount": 1000,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 80,
    "totalTokenCount": 1100,
}


@dataclass
class Request:
    """What arrived: the path, the headers in lower case, and the JSON body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return "".join(part["text"] for content in self.body["contents"] for part in content["parts"])

    @property
    def criterion(self) -> str:
        """The expected text or the statement of a question with one line of it."""
        return re.search(r"(?:Expected text|Statement):\n(.*)\n\nBEGIN", self.prompt)[1]

    @property
    def actual(self) -> str:
        """What stands between the fences."""
        fenced = re.search(r"\nBEGIN actual (\w+)\n(.*)\nEND actual \1$", self.prompt, re.DOTALL)
        return fenced[2]

    @property
    def system(self) -> str:
        return "".join(part["text"] for part in self.body["systemInstruction"]["parts"])


def knows(*pairs: tuple[str, str]) -> Callable[[Request], str]:
    """Answer yes to these pairs of criterion and actual text, and no to any other."""
    return lambda request: decision((request.criterion, request.actual) in pairs, "the stand-in knows")


def decision(passed: bool, reason: str = "because", score: float | None = None) -> str:
    return json.dumps({"reason": reason, "passed": passed, "score": score})


@dataclass
class GeminiStandIn:
    """`answer` makes the model's text, or the call of a tool, of a request; a test sets the rest at any time.

    `failures` are status codes to answer first, one a request. `body`, where set, is sent as it is in place
    of a response. `usage` None leaves the token counts out. `models` are those that it has; None: all, and it
    does not answer which.
    """

    url: str = ""
    answer: Callable[[Request], str | dict[str, Any] | None] = lambda request: decision(True)
    failures: list[int] = field(default_factory=list)
    body: bytes | None = None
    usage: dict[str, int] | None = field(default_factory=lambda: dict(USAGE))
    models: set[str] | None = None
    checks: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    busiest: int = 0
    _under_way: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _open: threading.Event = field(default_factory=threading.Event)
    _barrier: threading.Barrier | None = None

    def __post_init__(self) -> None:
        self._open.set()

    @property
    def calls(self) -> int:
        return len(self.requests)

    def hold(self) -> None:
        """Answer nothing until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Answer what is held, and all that comes."""
        self._open.set()

    def wait_for(self, calls: int) -> None:
        """Return once that number of requests has arrived in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.calls >= calls, timeout=PATIENCE_S)

    def answer_together(self, number: int) -> None:
        """Answer requests in groups: each waits until that number is under way."""
        self._barrier = threading.Barrier(number, timeout=PATIENCE_S)

    def http_options(self, attempts: int = 5) -> HttpOptions:
        """For the real client: this server, and retries without the waiting."""
        from google.genai.types import HttpOptions, HttpRetryOptions

        return HttpOptions(
            base_url=self.url,
            retry_options=HttpRetryOptions(
                attempts=attempts, initial_delay=0.001, max_delay=0.01, jitter=0.001
            ),
            client_args={"verify": _TLS},
            async_client_args={"verify": _TLS},
        )

    def respond(self, request: Request) -> tuple[int, bytes]:
        with self._changed:
            self.requests.append(request)
            failure = self.failures.pop(0) if self.failures else None
            self._under_way += 1
            self.busiest = max(self.busiest, self._under_way)
            self._changed.notify_all()
        try:
            if self._barrier is not None:
                self._barrier.wait()
            self._open.wait(PATIENCE_S)
            if self.models is not None and (missing := self._missing_model(request)):
                return missing
            if failure:
                error = {"code": failure, "message": f"stand-in fails with {failure}", "status": "FAILED"}
                return failure, json.dumps({"error": error}).encode()
            if self.body is not None:
                return 200, self.body
            return 200, json.dumps(self._response(request)).encode()
        finally:
            with self._changed:
                self._under_way -= 1

    def _missing_model(self, request: Request) -> tuple[int, bytes] | None:
        named = request.body.get("model") or re.search(r"/models/([^:/]+)", request.path)[1]
        return None if named in self.models else self.respond_about(f"/models/{named}")

    def respond_about(self, path: str) -> tuple[int, bytes]:
        """Answer a GET, which asks for a model."""
        self.checks.append(path)
        model = path.rpartition("/")[2].partition("?")[0]
        if self.models is None:
            return 404, json.dumps({"detail": f"Not Found: {path}"}).encode()
        if model in self.models:
            return 200, json.dumps({"id": model, "name": f"models/{model}", "type": "model"}).encode()
        message = f"models/{model} is not found: the model '{model}' does not exist"
        return 404, json.dumps({"error": {"code": 404, "message": message, "status": "NOT_FOUND"}}).encode()

    def _response(self, request: Request) -> dict[str, Any]:
        text = self.answer(request)
        kind = "text" if isinstance(text, str) else "functionCall"
        parts = [] if text is None else [{kind: text}]
        candidate = {
            "content": {"role": "model", "parts": parts},
            "finishReason": "STOP" if text else "MAX_TOKENS",
        }
        return {"candidates": [candidate]} | ({"usageMetadata": self.usage} if self.usage else {})


def judge_of(standin: GeminiStandIn, model: str = MODEL, attempts: int = 5) -> GeminiJudge:
    """A judge that asks a stand-in."""
    return GeminiJudge(model, http_options=standin.http_options(attempts))


@contextmanager
def gemini_standin() -> Iterator[GeminiStandIn]:
    """A stand-in that serves on a free port of loopback until the block ends."""
    standin = GeminiStandIn()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(*standin.respond(Request(self.path, headers, body)))

        def do_GET(self) -> None:
            self._send(*standin.respond_about(self.path))

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True

        def serve_forever(self, poll_interval: float = 0.01) -> None:
            super().serve_forever(poll_interval)

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            super().process_request_thread(request, client_address)

        # A conversation does not wait for threads of a test runner (evaluator/agents/drive.py).
        serve_forever.__module__ = process_request_thread.__module__ = "pytest"

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    standin.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield standin
    finally:
        standin.release()
        server.shutdown()
        server.server_close()
        thread.join()
