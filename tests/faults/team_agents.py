"""Agents that send to a team's server, each request until it is acknowledged.

OpenTelemetry's exporters of Python over HTTP and gRPC, that of JavaScript, and a Collector in front, where
there is one.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import grpc
import requests
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, TraceFlags

OF_SESSION = 8  # spans
COUNT = 320  # spans in a request
SHOP = Resource({"service.name": "shop"})
JAVASCRIPT = Path(__file__).with_name("team_agents.js")
PACKAGES = ("api", "sdk-trace-base", "resources", "exporter-trace-otlp-proto")


class Where(NamedTuple):
    """Where agents send, with which key, and the server's certificate."""

    http: str
    grpc: str
    key: str
    certificate: Path


def session(number: int, agent: str) -> Iterator[ReadableSpan]:
    """Yield the spans of a session: an agent that calls a model seven times. The ids come from its number."""
    end_ns = time.time_ns()
    first = number * OF_SESSION
    contexts = [
        SpanContext(number + 1, first + one + 1, is_remote=False, trace_flags=TraceFlags(1))
        for one in range(OF_SESSION)
    ]
    called = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1"}
    for context in contexts:
        is_root = context is contexts[0]
        yield ReadableSpan(
            f"invoke_agent {agent}" if is_root else "chat gpt-4.1",
            context,
            None if is_root else contexts[0],
            SHOP,
            called if is_root else chat,
            start_time=end_ns - 10**9,
            end_time=end_ns if is_root else end_ns - 9 * 10**8,
        )


def python(exporter: SpanExporter, agent: str, first: int, spans: int, sent: Callable[[int], None]) -> None:
    """Send sessions by an exporter; `sent` is told how many spans were acknowledged."""
    for start in range(first, first + spans, COUNT):
        numbers = range(start // OF_SESSION, min(start + COUNT, first + spans) // OF_SESSION)
        batch = [span for number in numbers for span in session(number, agent)]
        while exporter.export(batch) is not SpanExportResult.SUCCESS:
            time.sleep(0.1)
        sent(len(batch))
    exporter.shutdown()


def over_http(where: Where, first: int, spans: int, sent: Callable[[int], None]) -> None:
    """Send over HTTP."""
    headers = {"Authorization": f"Bearer {where.key}"}
    session = requests.Session()
    session.trust_env = False  # or $REQUESTS_CA_BUNDLE counts, and not the certificate
    url, certificate = f"{where.http}/v1/traces", str(where.certificate)
    exporter = HttpExporter(url, certificate, headers=headers, session=session)
    python(exporter, "http", first, spans, sent)


def over_grpc(where: Where, first: int, spans: int, sent: Callable[[int], None]) -> None:
    """Send over gRPC."""
    trusted = grpc.ssl_channel_credentials(where.certificate.read_bytes())
    headers = {"authorization": f"Bearer {where.key}"}
    exporter = GrpcExporter(where.grpc, credentials=trusted, headers=headers)
    python(exporter, "grpc", first, spans, sent)


def in_javascript(packages: Path, where: Where, first: int, spans: int, sent: Callable[[int], None]) -> None:
    """Send by a process of Node."""
    command = ["node", str(JAVASCRIPT), f"{where.http}/v1/traces", where.key]
    environment = {
        **os.environ,
        "NODE_PATH": str(packages),
        "NODE_EXTRA_CA_CERTS": str(where.certificate),
    }
    process = subprocess.Popen(
        [*command, *map(str, (first, spans, COUNT))], stdout=subprocess.PIPE, text=True, env=environment
    )
    before = 0
    for line in process.stdout:
        sent(int(line) - before)
        before = int(line)
    process.wait()


def through_collector(url: str, first: int, spans: int, sent: Callable[[int], None]) -> None:
    """Send to a Collector, which has the key and acknowledges before it has sent."""
    for start in range(first, first + spans, COUNT):
        numbers = range(start // OF_SESSION, min(start + COUNT, first + spans) // OF_SESSION)
        batch = [span for number in numbers for span in session(number, "collector")]
        body = encode_spans(batch).SerializeToString()
        headers = {"Content-Type": "application/x-protobuf"}
        asked = urllib.request.Request(url, body, headers)  # noqa: S310 (loopback)
        while True:
            with suppress(OSError), urllib.request.urlopen(asked, timeout=30):  # noqa: S310 (same)
                break
            time.sleep(0.1)
        sent(len(batch))


@contextmanager
def collector(where: Where, port: int) -> Iterator[str | None]:
    """Run a Collector in front of the server, Rotel of its PyPI package; give its URL, if there is one."""
    package = find_spec("rotel")
    if package is None or package.origin is None:
        yield None
        return
    command = [str(Path(package.origin).with_name("rotel-agent")), "start"]
    command += ["--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", "127.0.0.1:0"]
    command += ["--exporter", "otlp", "--otlp-exporter-protocol", "http"]
    command += ["--otlp-exporter-endpoint", where.http]
    command += ["--otlp-exporter-custom-headers", f"Authorization=Bearer {where.key}"]
    command += ["--otlp-exporter-tls-skip-verify"]  # it refuses to start with a file of certificates alone
    command += ["--otlp-exporter-retry-max-elapsed-time", "600s"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}/v1/traces"
    finally:
        process.terminate()
        process.wait(60)


def javascript_packages(folder: Path) -> Path | None:
    """Install OpenTelemetry's packages from npm; return their folder, None if they cannot be had."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None
    names = [f"@opentelemetry/{name}" for name in PACKAGES]
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *names]
    done = subprocess.run(command, capture_output=True, timeout=300)
    return None if done.returncode else folder / "node_modules"


def run_all(
    senders: Sequence[Callable[[int, int, Callable[[int], None]], None]],
    spans: int,
    sent: Callable[[int], None],
) -> list[threading.Thread]:
    """Start agents, each of which sends its share of the spans."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # of requests that are sent again
    each = spans // len(senders) // OF_SESSION * OF_SESSION
    threads = [
        threading.Thread(target=sender, args=(number * each, each, sent))
        for number, sender in enumerate(senders)
    ]
    for thread in threads:
        thread.start()
    return threads
