"""What a server needs per million spans: `python tests/benchmarks/sizing.py [SPANS]`.

Sends sessions of 8 spans to `spangrade serve` that grades nothing, then derives and grades them by commands.
Prints the CPU seconds of each part, with the start of its process, and the size of the database.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

if __name__ == "__main__":  # as a script
    sys.path.insert(0, str(Path(__file__).parent.parent))

from faults.team_agents import OF_SESSION, session
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

COUNT = 800  # spans in a request
GATES = ("--metric", "latency_metrics<=20", "--metric", "tool_success_rate>=0.9")


def children_cpu_s() -> float:
    """Return the CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def served(folder: Path, spans: int) -> None:
    """Send spans to a server and stop it, so that all are stored."""
    ports = ("--port", "0", "--http-port", "0", "--grpc-port", "0")
    command = [sys.executable, "-m", "spangrade", "serve", "--data", str(folder), *ports]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        url = ""
        while not url:
            found = re.search(r"OTLP over HTTP at (\S+),", process.stderr.readline())
            url = f"{found[1]}/v1/traces" if found else ""
        headers = {"Content-Type": "application/x-protobuf"}
        for first in range(0, spans, COUNT):
            numbers = range(first // OF_SESSION, min(first + COUNT, spans) // OF_SESSION)
            batch = [span for number in numbers for span in session(number, "shop")]
            body = encode_spans(batch).SerializeToString()
            urllib.request.urlopen(urllib.request.Request(url, body, headers)).close()  # noqa: S310 (loopback)
        process.terminate()


def main(spans: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        db = Path(name) / "spangrade.duckdb"
        parts = [("receive and load", lambda: served(Path(name), spans))]
        for words in (("doctor", "--derive-all"), ("grade", *GATES)):
            command = [sys.executable, "-m", "spangrade", *words, "--db", str(db)]
            parts.append((words[0], lambda command=command: subprocess.run(command, capture_output=True)))
        for part, run in parts:
            before_s = children_cpu_s()
            run()
            print(f"{part}: {(children_cpu_s() - before_s) / spans * 1e6:.0f} CPU seconds per million spans")
        print(f"database: {db.stat().st_size / spans * 1e6 / 1e9:.2f} GB per million spans")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
