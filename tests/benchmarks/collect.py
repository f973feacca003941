"""Measure how many spans per second the receiver accepts on a machine that also runs the senders.

Run: `python tests/benchmarks/collect.py {encoded,exporters} [SECONDS]`. `encoded` sends requests of 512 spans
that were encoded beforehand, over four connections; `exporters` runs four processes with OpenTelemetry's own
batch processor and OTLP exporter over HTTP. Meanwhile a reader opens the database every half second. Prints
spans per second, the receiver's CPU and memory, the latency of requests and of the reader, and whether every
acknowledged span is in the database exactly once.
"""

from __future__ import annotations

import http.client
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlparse

import duckdb
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

sys.path.insert(0, str(Path(__file__).parents[1]))
from receiving import receiver

from spangrade import StoreLockedError
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import folder_of

SENDERS = 4
BATCH = 512
ATTRIBUTES = {
    "gen_ai.operation.name": "chat",
    "gen_ai.conversation.id": "conv-1",
    "gen_ai.request.model": "gemini-2.5-flash",
    "gen_ai.usage.input_tokens": 1200,
    "gen_ai.usage.output_tokens": 80,
    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"' + "x" * 1100 + '"}]}]',
    "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"'
    + "y" * 300
    + '"}]}]',
}


def add_attributes(span: Span) -> None:
    """Set ATTRIBUTES on a protobuf span."""
    for key, value in ATTRIBUTES.items():
        attribute = span.attributes.add(key=key).value
        if isinstance(value, int):
            attribute.int_value = value
        else:
            attribute.string_value = value


def encoded(url: str, sender: int, until_s: float, results: multiprocessing.Queue) -> None:
    """Send one prepared request repeatedly, each time with new ids and times."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = ExportTraceServiceRequest()
    group = message.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "benchmark"
    spans = group.scope_spans.add().spans
    started_ns = time.time_ns()
    for number in range(BATCH):
        span = spans.add(
            trace_id=b"TRACE" + bytes([sender + 1]) * 3 + (number // 16).to_bytes(8, "big"),
            span_id=b"SPAN" + bytes([sender + 1]) * 2 + number.to_bytes(2, "big"),
            name="chat gemini-2.5-flash",
            start_time_unix_nano=started_ns,
            end_time_unix_nano=started_ns + 10**9,
        )
        add_attributes(span)
    body = message.SerializeToString()
    connection = http.client.HTTPConnection(urlparse(url).netloc, timeout=30)
    sent, rejected, latencies = 0, 0, []
    mark = b"SPAN" + bytes([sender + 1]) * 2
    while time.time() < until_s:
        fresh = body.replace(mark, sent.to_bytes(6, "big")[2:] + bytes([sender + 1, 7]))
        fresh = fresh.replace(started_ns.to_bytes(8, "little"), time.time_ns().to_bytes(8, "little"))
        started = time.perf_counter()
        connection.request("POST", "/v1/traces", fresh, {"Content-Type": "application/x-protobuf"})
        response = connection.getresponse()
        content = response.read()
        if response.status == 200:
            latencies.append(time.perf_counter() - started)
            sent += BATCH
        else:
            rejected += 1
            if rejected == 1:
                print(response.status, content, file=sys.stderr)
            time.sleep(0.2)
    results.put((sent, rejected, latencies))


class Timed(SpanExporter):
    """Wrap an exporter; measure the time of its calls and count the spans that it sends."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.exporter, self.sent, self.failed, self.latencies = exporter, 0, 0, []

    def export(self, spans):
        """Send and count."""
        started = time.perf_counter()
        result = self.exporter.export(spans)
        self.latencies.append(time.perf_counter() - started)
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
        else:
            self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        """Shut the exporter down."""
        self.exporter.shutdown()


def exporting(url: str, sender: int, until_s: float, results: multiprocessing.Queue) -> None:
    """Make spans as fast as the stock exporter accepts them."""
    exporter = Timed(OTLPSpanExporter(url + "/v1/traces"))
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=8192, schedule_delay_millis=100))
    tracer = provider.get_tracer("benchmark")
    created = 0
    while time.time() < until_s:
        tracer.start_span("chat gemini-2.5-flash", attributes=ATTRIBUTES).end()
        created += 1
        while created - exporter.sent - exporter.failed > 6144:  # the SDK drops spans when its queue is full
            time.sleep(0.005)
    provider.shutdown()
    results.put((exporter.sent, exporter.failed, exporter.latencies))


def read_along(db: Path, stop: threading.Event, latencies: list[float], refused: list[float]) -> None:
    """Open the database every half second, as a user would."""
    while not stop.wait(0.5):
        started = time.perf_counter()
        try:
            with Store.open(db, read_only=True, wait_s=5) as store:
                store.query("SELECT max(seq) FROM spans")
        except StoreLockedError:
            refused.append(time.perf_counter() - started)
        else:
            latencies.append(time.perf_counter() - started)


def usage_of(pid: int) -> tuple[float, int]:
    """Return the CPU seconds and the resident bytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf(
        "SC_PAGE_SIZE"
    )


def quantile(values: list[float], share: float) -> float:
    """Return a quantile by nearest rank, in milliseconds."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 100) // 100) - 1)] * 1000 if ordered else float("nan")


class Load(NamedTuple):
    """What a receiver did under load: spans acknowledged in how many seconds, and its CPU seconds until then.

    The other texts are lines of the report.
    """

    spans: int
    wall_s: float
    cpu_s: float
    others: list[str]


def load(kind: str, seconds: float) -> Load:
    """Run one load against a new receiver."""
    work = {"encoded": encoded, "exporters": exporting}[kind]
    with tempfile.TemporaryDirectory() as folder, receiver(Path(folder) / "s.duckdb") as running:
        results: multiprocessing.Queue = multiprocessing.Queue()
        until_s = time.time() + 1 + seconds
        senders = [
            multiprocessing.Process(target=work, args=(running.http, number, until_s, results))
            for number in range(SENDERS)
        ]
        stop, reads, refused = threading.Event(), [], []
        reader = threading.Thread(target=read_along, args=(running.db, stop, reads, refused))
        started = time.time()
        cpu_before, _ = usage_of(running.process.pid)
        for sender in senders:
            sender.start()
        reader.start()
        memory = []
        for _ in range(6):
            time.sleep(seconds / 6)
            memory.append(usage_of(running.process.pid)[1] >> 20)
        outcomes = [results.get(timeout=60) for _ in senders]
        took = time.time() - started
        cpu = usage_of(running.process.pid)[0] - cpu_before
        waiting_mb = sum(path.stat().st_size for path in folder_of(running.db).glob("*")) >> 20
        stop.set()
        reader.join()
        for sender in senders:
            sender.join()
        drained = time.time()
        code = running.stop()
        drained = time.time() - drained
        sent = sum(outcome[0] for outcome in outcomes)
        latencies = [latency for outcome in outcomes for latency in outcome[2]]
        client = duckdb.connect(str(running.db), read_only=True)
        rows, distinct = client.execute(
            "SELECT count(*), count(DISTINCT (trace_id, span_id)) FROM spans"
        ).fetchone()
        others = [
            f"rejected or failed: {sum(outcome[1] for outcome in outcomes)} requests or spans",
            f"request: p50 {quantile(latencies, 0.5):.0f} ms, p99 {quantile(latencies, 0.99):.0f} ms",
            f"memory of the receiver: {memory} MiB resident over time",
            (
                f"reader: p50 {quantile(reads, 0.5):.0f} ms, worst {max(reads, default=0) * 1000:.0f} ms, "
                f"{len(refused)} of {len(reads) + len(refused)} refused"
            ),
            (
                f"stop: {drained:.1f} s for {waiting_mb} MiB, exit code {code}; "
                f"stored {rows}, distinct {distinct}, "
                f"file {running.db.stat().st_size / rows:.0f} bytes per span"
            ),
        ]
        return Load(sent, took, cpu, others)


def main(kind: str, seconds: float) -> None:
    """Run one load and print the result."""
    spans, wall_s, cpu_s, others = load(kind, seconds)
    print(f"{spans} spans acknowledged in {wall_s:.1f} s: {spans / wall_s:.0f} per second")
    print(f"receiver: {cpu_s / spans * 1e6:.1f} µs CPU per span")
    print(*others, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60.0)
