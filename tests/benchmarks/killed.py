"""Measure what a process loses that is killed by SIGKILL.

Run: `python tests/benchmarks/killed.py [SECONDS]`. A process ends ten turns a second and is killed after so
many seconds (12 by default). Prints how many turns had ended and how many are stored, with OpenTelemetry's
interval between two batches and with one of 200 ms.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import spangrade

AGENT = """
import sys, time
from spangrade import configure, session, turn

configure(db=sys.argv[1])
started_s = time.monotonic()
for number in range(1, 1000):
    with session(f"c-{number}"), turn("Where is it?") as current:
        current.respond("Here.")
    print(number, flush=True)
    time.sleep(max(0, started_s + number / 10 - time.monotonic()))
"""


def measure(delay_ms: int, seconds: float) -> tuple[int, int]:
    """Return the turns that had ended when the process was killed, and those that are stored."""
    db = Path(tempfile.mkdtemp()) / "spans.duckdb"
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(db)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OTEL_BSP_SCHEDULE_DELAY": str(delay_ms)},
    )
    assert agent.stdout is not None
    first = agent.stdout.readline()
    time.sleep(seconds)
    agent.kill()
    ended = int((first + agent.stdout.read()).split()[-1])
    return ended, len(list(spangrade.open(db).sessions())) if db.exists() else 0


def main(seconds: float) -> None:
    """Print both figures."""
    for delay_ms in (5_000, 200):
        ended, stored = measure(delay_ms, seconds)
        print(f"a batch every {delay_ms} ms: {ended - stored} of {ended} turns lost")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 12)
