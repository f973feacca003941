"""Measure importing, deriving and grading: seconds, spans per second, and peak memory.

    python tests/benchmarks/pipeline.py                        # 1,000 to 16,000 sessions
    python tests/benchmarks/pipeline.py --sessions 5000
    python tests/benchmarks/pipeline.py --spans spans.jsonl --golden golden.json

Without --spans, the sessions are copies of the sample dataset's, each with its own trace and conversation
ids. Each step runs in its own process, so that its memory can be measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATASET = Path(__file__).parents[2] / "datasets" / "customer_service"
TRACE_ID = re.compile(r'"traceId": ?"([0-9a-f]{32})"')

STEPS = {
    "import and derive": ("import", "{spans}", "--db", "{db}"),
    "derive again": ("derive", "--all", "--db", "{db}"),
    "grade": ("grade", "{golden}", "--db", "{db}", "--format", "json"),
}


def multiply_sessions(sessions: int, path: Path) -> None:
    """Write `sessions` sessions of the sample dataset as JSON lines."""
    recorded = (DATASET / "spans.otlp.jsonl").read_text(encoding="utf-8").splitlines()
    with path.open("w", encoding="utf-8") as file:
        for number, line in zip(range(sessions), itertools.cycle(recorded), strict=False):
            copy = TRACE_ID.sub(lambda match, n=number: f'"traceId":"{n:08x}{match[1][8:]}"', line)
            file.write(copy.replace('"conversation-', f'"conversation-{number}-') + "\n")


def timed(command: list[str]) -> tuple[float, int]:
    """Run a command of spangrade; return its seconds and its peak memory in MB."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "spangrade", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status) not in {0, 1, 4}:
        sys.exit(f"{command}: exit {os.waitstatus_to_exitcode(status)}")
    return seconds, usage.ru_maxrss // 1024


def run(spans: Path, golden: Path) -> None:
    """Measure one file of recorded spans and print one line per step."""
    with spans.open(encoding="utf-8") as file:
        counted = sum(
            len(s["spans"])
            for line in file
            for r in json.loads(line)["resourceSpans"]
            for s in r["scopeSpans"]
        )
    with tempfile.TemporaryDirectory() as folder:
        db = f"{folder}/bench.duckdb"
        print(f"{counted} spans, {spans.stat().st_size / 1e6:.0f} MB")
        for name, command in STEPS.items():
            filled = [part.format(spans=spans, golden=golden, db=db) for part in command]
            seconds, memory = timed(filled)
            rate, cost = counted / seconds, seconds / counted * 1e6
            print(f"  {name:18} {seconds:7.2f} s {rate:9.0f} spans/s {cost:7.1f} µs/span {memory:5} MB")


def main() -> None:
    """Measure the given files, or generated ones of growing size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, nargs="*", default=[1_000, 4_000, 16_000])
    parser.add_argument("--spans", type=Path)
    parser.add_argument("--golden", type=Path, default=DATASET / "customer_service_golden.json")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # doubles start times
    if arguments.spans:
        run(arguments.spans, arguments.golden)
        return
    for sessions in arguments.sessions:
        with tempfile.TemporaryDirectory() as folder:
            spans = Path(folder) / "spans.jsonl"
            multiply_sessions(sessions, spans)
            run(spans, arguments.golden)


if __name__ == "__main__":
    main()
