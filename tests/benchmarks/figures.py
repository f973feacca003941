"""Print every figure of importing, deriving and grading in one table, beside what limits it.

    python tests/benchmarks/figures.py                        # 5,000 sessions
    python tests/benchmarks/figures.py --large 50000          # and 50,000 of them
    python tests/benchmarks/figures.py --sessions 500         # 150 s of CPU time, most of it in other shapes
    python tests/benchmarks/figures.py --spans spans.jsonl --golden golden.json
    python tests/benchmarks/figures.py --only receiver        # or sessions, or shapes

The limit of importing, and of the receiver, is to parse the JSON or protobuf and to insert rows that are made
already; that of other shapes of sessions is the cost of short ones, by the megabyte. CPU time is user and
system time of all processes; memory is the largest sum of their proportional set sizes (PSS). Each step runs
in its own process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.collect import BATCH, add_attributes, load
from benchmarks.shapes import DATASET, chain, conversations, sample_sessions
from processes import pss_mb, tree
from receiving import request

from spangrade.tracer.files import read
from spangrade.tracer.otlp.protobuf import decode
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import batches, rows_of

RECEIVER_S = 15.0


class Run(NamedTuple):
    """What a command took: CPU and wall seconds, and the memory of all its processes in MB."""

    cpu_s: float
    wall_s: float
    memory_mb: float


class Recording(NamedTuple):
    """A file of recorded spans."""

    path: Path
    spans: int
    sessions: int

    @property
    def megabytes(self) -> float:
        """The file's size."""
        return self.path.stat().st_size / 1e6


def run(*command: str | Path, workers: int = 1) -> Run:
    """Run a command of spangrade."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "spangrade", *command],
        env={**os.environ, "SPANGRADE_WORKERS": str(workers)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    largest = 0.0
    ended = threading.Event()

    def watch() -> None:
        nonlocal largest
        while not ended.wait(0.1):
            largest = max(largest, sum(map(pss_mb, tree(process.pid))))

    watching = threading.Thread(target=watch)
    watching.start()
    assert process.stderr is not None
    problems = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    ended.set()
    watching.join()
    if os.waitstatus_to_exitcode(status) not in {0, 1, 4}:
        sys.exit(f"{command}: exit {os.waitstatus_to_exitcode(status)}: {problems.decode()[-1000:]}")
    return Run(usage.ru_utime + usage.ru_stime, time.perf_counter() - started, largest)


def recording(path: Path, lines: Iterable[str]) -> Recording:
    """Write lines of spans to a file."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return counted(path)


def counted(path: Path) -> Recording:
    """Return a file of spans with their number, and that of the conversations in it."""
    spans = [record for record in read(path) if isinstance(record, Span)]
    sessions = {span.attributes.get("gen_ai.conversation.id") for span in spans} - {None}
    return Recording(path, len(spans), len(sessions) or 1)


def limits(spans: Recording, db: Path) -> float:
    """Return the CPU seconds of parsing alone and of inserting rows that are made already."""
    started = time.process_time()
    with spans.path.open("rb") as file:
        for line in file:
            orjson.loads(line)
    parsing = time.process_time() - started
    return parsing + inserting(db, read(spans.path))


def inserting(db: Path, records: Iterable[Span | LogRecord | Problem]) -> float:
    """Return the CPU seconds of inserting the rows of records, which are made before."""
    made = [rows_of(batch) for batch in batches(r for r in records if not isinstance(r, Problem))]
    started = time.process_time()
    with Store.open(db) as store:
        for tables in made:
            store.add_rows({table: [rows] for table, rows in tables.items()})
    return time.process_time() - started


def show(name: str, figure: float, unit: str, limit: float | None = None, of: str = "") -> None:
    """Print a row of the table: a figure, its limit, and how many times the limit it is."""
    beside = "" if limit is None else f"{limit:9.1f} {of:14} {figure / limit:5.1f}"
    print(f"{name:46} {figure:9.1f} {unit:14} {beside}", flush=True)


def show_sessions(name: str, spans: Recording, golden: Path, folder: Path, *, limited: bool) -> float:
    """Print the figures of a recording of many sessions; return the CPU seconds of its import."""
    print(f"\n{name}: {spans.sessions} sessions, {spans.spans} spans, {spans.megabytes:.0f} MB")
    per_span = 1e6 / spans.spans
    floor = limits(spans, folder / "limits.duckdb") * per_span if limited else None
    db = folder / "sessions.duckdb"
    one = run("import", spans.path, "--db", db)
    show("import and derive, CPU", one.cpu_s * per_span, "µs per span", floor, "parse, insert")
    show("import and derive, 1 worker, memory", one.memory_mb, "MB")
    again = run("doctor", "--derive-all", "--db", db)
    show("derive again, CPU", again.cpu_s * per_span, "µs per span")
    grading = run("grade", golden, "--db", db, "--format", "json")
    show("grade, CPU", grading.cpu_s * 1e6 / spans.sessions, "µs per session")
    show("grade, memory", grading.memory_mb, "MB")
    show("import, derive and grade, 1 worker", one.wall_s + grading.wall_s, "s")
    db.unlink()
    two = run("import", spans.path, "--db", db, workers=2)
    graded = run("grade", golden, "--db", db, "--format", "json", workers=2)
    show("import, derive and grade, 2 workers", two.wall_s + graded.wall_s, "s")
    show("import and derive, 2 workers, memory", two.memory_mb, "MB")
    db.unlink()
    return one.cpu_s


def encoded_request(first: int) -> bytes:
    """Return a request of spans whose ids begin at a number."""
    message = request(first, BATCH)
    for span in message.resource_spans[0].scope_spans[0].spans:
        add_attributes(span)
    return message.SerializeToString()


def show_receiver(folder: Path, seconds: float) -> None:
    """Print the figures of a receiver that gets requests encoded beforehand, from four processes."""
    print("\nReceiver: requests of 512 spans, encoded beforehand, over four connections")
    bodies = [encoded_request(number * BATCH) for number in range(100)]
    started = time.process_time()
    messages = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    parsing = time.process_time() - started
    records = (record for message in messages for record in decode(message))
    floor = (parsing + inserting(folder / "receiver.duckdb", records)) * 1e6 / (len(bodies) * BATCH)
    loaded = load("encoded", seconds)
    show("receive and store, CPU", loaded.cpu_s * 1e6 / loaded.spans, "µs per span", floor, "parse, insert")
    show("  spans acknowledged", loaded.spans / loaded.wall_s, "per second")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=5_000)
    parser.add_argument("--large", type=int, help="a number of sessions to measure too")
    parser.add_argument("--spans", type=Path, help="measure these instead")
    parser.add_argument("--golden", type=Path, default=DATASET / "customer_service_golden.json")
    parser.add_argument("--only", choices=["sessions", "receiver", "shapes"])
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # doubles start times
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = run("--version").cpu_s
        show("start of a command, CPU", start * 1e3, "ms")
        if arguments.only == "receiver":
            show_receiver(folder, RECEIVER_S)
            return
        if arguments.spans:
            short = counted(arguments.spans)
        else:
            short = recording(folder / "short.jsonl", sample_sessions(arguments.sessions))
        if arguments.only == "shapes":
            cpu_s = run("import", short.path, "--db", folder / "short.duckdb").cpu_s
        else:
            cpu_s = show_sessions("Short sessions", short, arguments.golden, folder, limited=True)
            if arguments.large:
                large = recording(folder / "large.jsonl", sample_sessions(arguments.large))
                show_sessions("Many sessions", large, arguments.golden, folder, limited=False)
        if arguments.only != "sessions":
            show_shapes((cpu_s - start) * 1e3 / short.megabytes, start, folder)
        if arguments.only is None:
            show_receiver(folder, RECEIVER_S)


def show_shapes(per_megabyte: float, start: float, folder: Path) -> None:
    """Print the figures of other shapes, beside the CPU milliseconds per megabyte of short sessions."""
    print("\nOther shapes, import and derive with 1 worker")
    for title, lines in (
        ("20 sessions of 1,000 spans in one turn", conversations(20, 1, 499)),
        ("20 sessions of 200 turns", conversations(20, 200, 2)),
        ("a chain of 20,000 tools", chain(20_000)),
        ("500 rounds in one turn", conversations(1, 1, 500)),
        ("50 interleaved sessions of 237,600 spans", conversations(50, 594, 3)),
    ):
        shape = recording(folder / "shape.jsonl", lines)
        took = run("import", shape.path, "--db", folder / "shape.duckdb")
        (folder / "shape.duckdb").unlink()
        cpu = (took.cpu_s - start) * 1e3 / shape.megabytes
        show(f"{title}, CPU", cpu, "ms per MB", per_megabyte, "short sessions")
        show(f"  {shape.spans} spans, {shape.megabytes:.0f} MB, CPU", took.cpu_s, "s")
        show("  wall", took.wall_s, "s")


if __name__ == "__main__":
    main()
