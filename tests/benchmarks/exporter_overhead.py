"""What a span costs the agent, and what a batch costs the writer.

Run: `uv run --extra dev python tests/benchmarks/exporter_overhead.py [SPANS [SPANS_A_SECOND]]`. Prints, as
µs a span: the agent's own thread with a no-op exporter and with ours behind the same `BatchSpanProcessor`, in
turns that alternate (the smallest of five counts), and the write of batches of 512 and 2,048.
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
    """Takes spans and does nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Returns SUCCESS."""
        return SpanExportResult.SUCCESS


def on_the_agents_thread(exporter: SpanExporter, spans: int, pace_s: float) -> tuple[float, float]:
    """Mean and 99th percentile, in µs, of starting and ending a span, one every `pace_s` seconds."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=200))
    tracer = provider.get_tracer("benchmark")
    took = []
    for _ in range(spans):
        began = time.perf_counter_ns()
        tracer.start_span("chat gemini-2.5-flash", attributes=ATTRIBUTES).end()
        took.append(time.perf_counter_ns() - began)
        time.sleep(pace_s)
    provider.shutdown()
    took.sort()
    return sum(took) / spans / 1000, took[int(spans * 0.99)] / 1000


def of_the_writer(db: Path, batch: int, batches: int) -> float:
    """µs a span, of batches written one after the other, each opening and closing the database."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    exporter, took = DuckDBSpanExporter(db), 0.0
    for _ in range(batches):
        for _ in range(batch):
            provider.get_tracer("benchmark").start_span("chat", attributes=ATTRIBUTES).end()
        spans = memory.get_finished_spans()
        memory.clear()
        began = time.perf_counter()
        if exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise SystemExit("a batch was not written")
        took += time.perf_counter() - began
    return took / batch / batches * 1e6


def main(spans: int, a_second: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        without, ours = [], []
        for run in range(5):
            db = Path(folder) / f"{run}.duckdb"
            without.append(on_the_agents_thread(NoExporter(), spans, 1 / a_second))
            ours.append(on_the_agents_thread(DuckDBSpanExporter(db), spans, 1 / a_second))
        for label, runs in ("no-op exporter", without), ("DuckDBSpanExporter", ours):
            mean, p99 = min(runs)
            print(f"{label:20} {mean:7.1f} µs a span, 99th percentile {p99:7.1f}")
        print(f"{'more by':20} {min(ours)[0] - min(without)[0]:7.1f} µs a span")
        for batch in 512, 2048:
            cost = of_the_writer(Path(folder) / f"batches-{batch}.duckdb", batch, 20)
            print(f"write, batches of {batch:<5} {cost:5.1f} µs a span, {cost * batch / 1000:.0f} ms a batch")


if __name__ == "__main__":
    # A thousand a second is a busy agent.
    main(*map(int, sys.argv[1:3]), *(2000, 1000)[len(sys.argv[1:3]) :])
