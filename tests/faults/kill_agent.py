"""Kill an agent that writes its spans itself: only what its batch processor has not exported may be lost.

Run: `python tests/faults/kill_agent.py [KILLS]`. The agent makes 200 spans per second; it is killed at random
moments and once ends normally. Prints the spans made and the spans lost of each run.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from spangrade.tracer.store import Store

AGENT = """
import sys, time
from spangrade.tracer import configure
provider = configure("agent", db=sys.argv[1])
tracer = provider.get_tracer("agent")
for number in range(int(sys.argv[2])):
    tracer.start_span("step").end()
    print(number + 1, flush=True)
    time.sleep(0.005)
"""


def run(db: Path, spans: int, kill_after_s: float | None) -> tuple[int, int]:
    """Return how many spans an agent made and how many are stored."""
    agent = subprocess.Popen([sys.executable, "-c", AGENT, db, str(spans)], stdout=subprocess.PIPE, text=True)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        agent.kill()
    made = len(agent.communicate()[0].split())
    if not db.exists():
        return made, 0
    with Store.open(db) as store:
        return made, int(store.query("SELECT count(*) FROM spans")[0][0])


if __name__ == "__main__":
    moments = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
            after_s = moments.uniform(6, 16)
            made, stored = run(Path(folder) / f"{number}.duckdb", 100_000, after_s)
            print(f"killed after {after_s:.1f} s: {made} made, {made - stored} lost", flush=True)
        made, stored = run(Path(folder) / "whole.duckdb", 500, None)
        print(f"ended normally: {made} made, {made - stored} lost")
