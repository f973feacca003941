"""Loopback stand-ins for what `spangrade serve --only grade` sends to: a webhook, and a stock OTLP sink."""

from __future__ import annotations

import gzip
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from spangrade.evaluator.apps.server.grade.totals import LABELS


class Hook:
    """A webhook that applies each id once: `applied` are the bodies by id, `requests` all that came in.

    `status(n)` is the answer to the n-th request, from 1.
    """

    def __init__(self, status: Callable[[int], int]) -> None:
        self.status = status
        self.url = ""
        self.applied: dict[str, Any] = {}
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answer_headers: dict[str, str] = {}
        self._lock = threading.Lock()

    def handle(self, headers: dict[str, str], body: bytes) -> int:
        """Take a request in and return the status of the answer."""
        with self._lock:
            self.requests.append((headers, body))
            status = self.status(len(self.requests))
            if 200 <= status < 300 or status == 599:  # 599: applied, and the answer was lost
                self.applied.setdefault(headers["webhook-id"], json.loads(body))
            return status


@contextmanager
def hook(status: Callable[[int], int] = lambda _: 204) -> Iterator[Hook]:
    """Run a webhook on a free port of the loopback."""
    receiving = Hook(status)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiving.handle({key.lower(): value for key, value in self.headers.items()}, body)
            if status == 599:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in receiving.answer_headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with _served(Handler) as port:
        receiving.url = f"http://127.0.0.1:{port}/hook?token=hidden"
        yield receiving


@contextmanager
def raw_server(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """Run a server that reads the headers of each request and lets `answer` write anything; yield its URL."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            with suppress(OSError):  # the client has closed the connection
                answer(self.request)

    with _served(Handler) as port:
        yield f"http://127.0.0.1:{port}/hook?token=hidden"


class Sink:
    """What an OTLP sink received: log records, and the last state of each metric."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.logs: list[LogRecord] = []
        self.scopes: set[str] = set()
        self.services: set[str] = set()
        self.metrics: dict[str, Metric] = {}
        self.accepting = True
        self._lock = threading.Lock()

    def take(self, request: Any) -> None:
        """Take an export request in."""
        with self._lock:
            for part in getattr(request, "resource_logs", ()):
                self._note(part.resource)
                for scope in part.scope_logs:
                    self.scopes.add(scope.scope.name)
                    self.logs += scope.log_records
            for part in getattr(request, "resource_metrics", ()):
                self._note(part.resource)
                for scope in part.scope_metrics:
                    self.metrics |= {metric.name: metric for metric in scope.metrics}

    def _note(self, resource: Any) -> None:
        for pair in resource.attributes:
            if pair.key == "service.name":
                self.services.add(pair.value.string_value)

    def points(self, name: str) -> dict[str, Any]:
        """Return the points of a metric by the value of their own attribute, "" without one.

        What names their sessions, such as the agent, is left out.
        """
        metric = self.metrics[name]
        points = (metric.sum if metric.HasField("sum") else metric.histogram).data_points
        return {
            "".join(pair.value.string_value for pair in point.attributes if pair.key not in LABELS): point
            for point in points
        }

    def events(self) -> list[dict[str, Any]]:
        """Return the log records: their ids, names and attributes."""
        return [
            {
                "trace_id": record.trace_id.hex(),
                "span_id": record.span_id.hex(),
                "event": record.event_name,
                **{pair.key: _plain(pair.value) for pair in record.attributes},
            }
            for record in self.logs
        ]


def _plain(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


_REQUESTS = {
    "/v1/logs": logs_service_pb2.ExportLogsServiceRequest,
    "/v1/metrics": metrics_service_pb2.ExportMetricsServiceRequest,
}


@contextmanager
def http_sink() -> Iterator[Sink]:
    """Run an OTLP sink over HTTP: the messages of opentelemetry-proto, parsed by protobuf."""
    sink = Sink()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if sink.accepting:
                sink.take(_REQUESTS[self.path].FromString(body))
            self.send_response(200 if sink.accepting else 400)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with _served(Handler) as port:
        sink.endpoint = f"http://127.0.0.1:{port}"
        yield sink


@contextmanager
def grpc_sink() -> Iterator[Sink]:
    """Run an OTLP sink over gRPC: the services that grpc generated of opentelemetry-proto."""
    sink = Sink()

    class Logs(logs_service_pb2_grpc.LogsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 (the service's name)
            sink.take(request)
            return logs_service_pb2.ExportLogsServiceResponse()

    class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
            sink.take(request)
            return metrics_service_pb2.ExportMetricsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(), server)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
    sink.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield sink
    finally:
        server.stop(None)


@contextmanager
def _served(handler: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
