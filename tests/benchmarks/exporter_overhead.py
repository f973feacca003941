"""Measure what a span costs the agent and what a batch costs the writer.

Run: `python tests/benchmarks/exporter_overhead.py [SPANS [SPANS_PER_SECOND]]`. Prints µs per span: on the
agent's own thread with a no-op exporter and with DuckDBSpanExporter behind the same `BatchSpanProcessor`, in
alternating runs (the smallest of five counts), and for writing batches of 512 and 2,048 spans.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spangrade.tracer import semconv
from spangrade.tracer.exporter import DuckDBSpanExporter

ATTRIBUTES = {
    semconv.OPERATION_NAME: semconv.CHAT,
    semconv.CONVERSATION_ID: "conv-1",
    semconv.REQUEST_MODEL: "gemini-2.5-flash",
    semconv.INPUT_TOKENS: 1200,
    semconv.OUTPUT_TOKENS: 80,
    semconv.INPUT_MESSAGES: '[{"role":"user","parts":[{"type":"text","content":"' + "x" * 1500 + '"}]}]',
    semconv.OUTPUT_MESSAGES: '[{"role":"assistant","parts":[{"type":"text","content":"' + "y" * 300 + '"}]}]',
}


class NoExporter(SpanExporter):
    """Accept spans and do nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Return SUCCESS."""
        return SpanExportResult.SUCCESS


def agent_thread_us(exporter: SpanExporter, spans: int, pace_s: float) -> tuple[float, float]:
    """Return the mean and the 99th percentile, in µs, of making one span every `pace_s` seconds."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=200))
    tracer = provider.get_tracer("benchmark")
    times_ns = []
    for _ in range(spans):
        started = time.perf_counter_ns()
        tracer.start_span("chat gemini-2.5-flash", attributes=ATTRIBUTES).end()
        times_ns.append(time.perf_counter_ns() - started)
        time.sleep(pace_s)
    provider.shutdown()
    times_ns.sort()
    return sum(times_ns) / spans / 1000, times_ns[int(spans * 0.99)] / 1000


def writer_us(db: Path, batch: int, batches: int) -> float:
    """Return µs per span for consecutive batches, each of which opens and closes the database."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    exporter, total_s = DuckDBSpanExporter(db), 0.0
    for _ in range(batches):
        for _ in range(batch):
            provider.get_tracer("benchmark").start_span("chat", attributes=ATTRIBUTES).end()
        spans = memory.get_finished_spans()
        memory.clear()
        started = time.perf_counter()
        if exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise SystemExit("a batch was not written")
        total_s += time.perf_counter() - started
    return total_s / batch / batches * 1e6


def main(spans: int, per_second: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        without, ours = [], []
        for run in range(5):
            db = Path(folder) / f"{run}.duckdb"
            without.append(agent_thread_us(NoExporter(), spans, 1 / per_second))
            ours.append(agent_thread_us(DuckDBSpanExporter(db), spans, 1 / per_second))
        for label, runs in ("no-op exporter", without), ("DuckDBSpanExporter", ours):
            mean, p99 = min(runs)
            print(f"{label:20} {mean:7.1f} µs per span, 99th percentile {p99:7.1f}")
        print(f"{'difference':20} {min(ours)[0] - min(without)[0]:7.1f} µs per span")
        for batch in 512, 2048:
            cost = writer_us(Path(folder) / f"batches-{batch}.duckdb", batch, 20)
            per_batch_ms = cost * batch / 1000
            print(f"write, batches of {batch:<5} {cost:5.1f} µs per span, {per_batch_ms:.0f} ms per batch")


if __name__ == "__main__":
    # A thousand a second is a busy agent.
    main(*map(int, sys.argv[1:3]), *(2000, 1000)[len(sys.argv[1:3]) :])
