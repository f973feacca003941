"""Agents in web frameworks and workers (apps/), each served, and ended while requests are in flight.

Needs the servers: `uv run --isolated --group servers pytest tests/servers`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import spangrade
from spangrade.tracer.otlp.protobuf import decode

pytest.importorskip("gunicorn", reason="the servers are not installed: the group `servers` has them")

ROOT = Path(__file__).resolve().parents[2]
APPS = Path(__file__).parent / "apps"
SESSIONS = 30

# What the pages import: the agent. It answers at once, or when the test lets it go.
SUPPORT = """
import asyncio, os, socket

GATE = "127.0.0.1", int(os.environ["GATE"])

def reply(text):
    if text == "wait":
        with socket.create_connection(GATE) as gate:
            gate.recv(1)
    return "It is shipped."

async def pieces(text):
    yield "It is "
    if text == "wait":
        reader, writer = await asyncio.open_connection(*GATE)
        await reader.read(1)
        writer.close()
    yield "shipped."
"""


# How each is started.
COMMANDS = {
    "fastapi": (
        "uvicorn app:app",
        "uvicorn app:app --workers 2",
        "gunicorn app:app --worker-class uvicorn_worker.UvicornWorker --workers 2",
    ),
    "flask": ("gunicorn app:app --workers 4", "gunicorn app:app --workers 2 --threads 8"),
    "django": ("gunicorn app:app --workers 2 --threads 8",),
    "celery": ("celery --app app worker --concurrency 2",),
}


def block(name: str, index: int = 0) -> str:
    """Return the source of an application; Starlette's is FastAPI's second."""
    return (APPS / f"{'starlette' if index else name}.py").read_text(encoding="utf-8")


def commands(name: str) -> list[list[str]]:
    """Return the commands that serve an application."""
    return [line.split() for line in COMMANDS[name]]


class Gate:
    """Where replies wait until the test lets them go."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(60)
        self.port = self._listener.getsockname()[1]
        self._waiting: list[socket.socket] = []

    def wait_for(self, replies: int) -> None:
        """Return when that number of replies waits."""
        while len(self._waiting) < replies:
            self._waiting.append(self._listener.accept()[0])

    def open(self) -> None:
        for connection in self._waiting:
            connection.sendall(b"1")
            connection.close()
        self._waiting.clear()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def endpoint() -> Iterator[tuple[str, set[str]]]:
    """An OTLP endpoint: its address, and the ids of the conversations of which it has a whole turn."""
    received: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for span in decode(ExportTraceServiceRequest.FromString(body)):
                if span.attributes.get("spangrade.turn.output") == "It is shipped.":
                    received.add(span.attributes["gen_ai.conversation.id"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()


def environment(gate: Gate, endpoint: str) -> dict[str, str]:
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "SPANGRADE_"))},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GATE": str(gate.port),
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "600000",  # nothing is written but at the end
    }


def stored(db: Path) -> set[str]:
    """Return the ids of the sessions with a whole turn."""
    sessions = spangrade.open(db).sessions()
    return {s.session_id for s in sessions if [t.final_response for t in s.turns] == ["It is shipped."]}


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for a condition, while a process runs."""
    deadline_s = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "the server has ended"
        assert time.monotonic() < deadline_s, "the server does not start"
        threading.Event().wait(0.02)


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


# The page, the number of its block and of its command, and how many requests are in flight.
SERVERS = {
    "uvicorn": ("fastapi", 0, 0, 10),
    "uvicorn with two workers": ("fastapi", 1, 1, 10),
    "gunicorn with uvicorn's workers": ("fastapi", 0, 2, 10),
    "gunicorn with uvicorn's workers, preloaded": ("fastapi", 1, 2, 10),
    "gunicorn with sync workers": ("flask", 0, 0, 4),
    "gunicorn with threads, preloaded": ("flask", 0, 1, 8),  # one of its workers may get them all
    "django": ("django", 0, 0, 8),
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("server", SERVERS)
def test_every_session_is_stored_when_a_server_is_ended(server, number, tmp_path, gate, endpoint) -> None:
    page, code, command, in_flight = SERVERS[server]
    (name, *arguments) = commands(page)[command]
    if name == "gunicorn" and number == signal.SIGINT:
        in_flight = 0  # it ends its workers at once, and leaves requests without an answer
        arguments += ["--graceful-timeout", "2"]  # uvicorn's workers ignore that, and are killed then
    (tmp_path / "app.py").write_text(block(page, code), encoding="utf-8")
    (tmp_path / "support.py").write_text(SUPPORT, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    where = ["--port", str(port)] if name == "uvicorn" else ["--bind", f"127.0.0.1:{port}"]
    preload = ["--preload"] if "preloaded" in server else []
    address, received = endpoint
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [name, *arguments, *where, *preload],
            cwd=tmp_path,
            env=environment(gate, address),
            stdout=output,
            stderr=output,
        )

    def ask(number: int, text: str) -> None:
        url = f"http://127.0.0.1:{port}/chat/c-{number}?text={text}"
        with urllib.request.urlopen(url, timeout=60) as response:
            assert response.read() == b"It is shipped."

    try:
        until(lambda: answers(port), process)
        for each in range(SESSIONS - in_flight):
            ask(each, "where")
        waiting = [
            threading.Thread(target=ask, args=(each, "wait"))
            for each in range(SESSIONS - in_flight, SESSIONS)
        ]
        for thread in waiting:
            thread.start()
        gate.wait_for(in_flight)
        process.send_signal(number)
        gate.open()
        process.wait(60)
        for thread in waiting:
            thread.join()
    finally:
        process.kill()
        process.wait()
    expected = {f"c-{each}" for each in range(SESSIONS)}
    assert (stored(tmp_path / "spangrade.duckdb"), received) == (expected, expected), log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_every_task_is_stored_when_a_celery_worker_is_ended(number, tmp_path, gate, endpoint) -> None:
    (tmp_path / "app.py").write_text(block("celery"), encoding="utf-8")
    (tmp_path / "support.py").write_text(SUPPORT, encoding="utf-8")
    for folder in ("queue", "processed"):
        (tmp_path / folder).mkdir()
    # A broker in a folder: no server of its own.
    (tmp_path / "celeryconfig.py").write_text(
        "broker_url = 'filesystem://'\n"
        "broker_transport_options = {\n"
        "    'data_folder_in': 'queue', 'data_folder_out': 'queue', 'polling_interval': 0.05\n"
        "}\n"
        "worker_hijack_root_logger = False\n"
    )
    settings = {**environment(gate, endpoint[0]), "CELERY_CONFIG_MODULE": "celeryconfig"}
    (command,) = commands("celery")
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=tmp_path, env=settings, stdout=output, stderr=output)
    send = (
        "import sys, app\n"
        "for each in range(int(sys.argv[1]), int(sys.argv[2])):\n"
        "    app.chat.delay(f'c-{each}', sys.argv[3])"
    )
    try:
        # Two tasks, one for each process of the pool, wait until the worker has been told to end.
        for arguments in (("0", str(SESSIONS - 2), "where"), (str(SESSIONS - 2), str(SESSIONS), "wait")):
            subprocess.run([sys.executable, "-c", send, *arguments], cwd=tmp_path, env=settings, check=True)
        gate.wait_for(2)
        process.send_signal(number)
        gate.open()
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    expected = {f"c-{each}" for each in range(SESSIONS)}
    assert (stored(tmp_path / "spangrade.duckdb"), endpoint[1]) == (expected, expected), log.read_text()
