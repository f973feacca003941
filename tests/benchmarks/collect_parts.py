"""Measure each step of the receiver by itself, per span, in one thread.

Run: `python tests/benchmarks/collect_parts.py`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.collect import BATCH, add_attributes
from receiving import request

from spangrade.tracer.otlp import protobuf as otlp_proto
from spangrade.tracer.redaction import Redaction
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.spool import Segment, drain, folder_of, to_frames

REQUESTS = 120


def main() -> None:
    """Run each step over the same requests."""
    bodies = []
    for number in range(REQUESTS):
        message = request(number * BATCH, BATCH)
        for span in message.resource_spans[0].scope_spans[0].spans:
            add_attributes(span)
        bodies.append(message.SerializeToString())

    def timed(name: str, step: Callable[[], list]) -> list:
        started, cpu = time.perf_counter(), time.process_time()
        result = step()
        spans = REQUESTS * BATCH / 1e6
        took, used = time.perf_counter() - started, time.process_time() - cpu
        print(f"{name:32} {took / spans:6.1f} µs, {used / spans:6.1f} µs CPU")
        return result

    messages = timed("parse", lambda: [ExportTraceServiceRequest.FromString(body) for body in bodies])
    records = timed("decode", lambda: [list(otlp_proto.decode(message)) for message in messages])
    redact = Redaction("mask")
    timed("redact (off by default)", lambda: [[redact(span) for span in spans] for spans in records])
    rows = timed("to rows", lambda: [rows_of(spans) for spans in records])
    frames = timed("to frames", lambda: [to_frames(tables) for tables in rows])
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "s.duckdb"
        segment = Segment(folder_of(db))
        timed("to disk, one sync per request", lambda: [segment.append([frame]) for frame in frames])
        segment.close()

        def load() -> list:
            with Store.open(db) as store:
                return [drain(store)]

        timed("to the database, with closing it", load)


if __name__ == "__main__":
    main()
