"""Kill the receiver at random moments under load: no acknowledged span may be missing or stored twice.

Run: `python tests/faults/kill.py [KILLS] [SEED]`.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

import requests

sys.path.insert(0, str(Path(__file__).parents[1]))
from receiving import Receiver, request, start

from spangrade.tracer.store import Store

SENDERS = 3
SPANS = 50  # per request


class Outcome(NamedTuple):
    """Counts of spans: acknowledged, missing, stored, and the most rows that one span has."""

    acknowledged: int
    missing: int
    stored: int
    max_rows: int


def send(sender: int, current: list[Receiver], stop: threading.Event, acknowledged: list[int]) -> None:
    """Send as an exporter does: repeat what is not acknowledged."""
    first = sender * 10_000_000
    with requests.Session() as session:
        while not stop.is_set():
            body = request(first, SPANS, text="x" * 500).SerializeToString()
            try:
                response = session.post(
                    current[0].http + "/v1/traces",
                    data=body,
                    headers={"Content-Type": "application/x-protobuf"},
                    timeout=5,
                )
            except requests.RequestException:
                stop.wait(0.01)
                continue
            if response.ok:
                acknowledged.extend(range(first, first + SPANS))
                first += SPANS


def kill_repeatedly(db: Path, kills: int, seed: int) -> Outcome:
    """Kill a receiver `kills` times, stop the last one regularly, and count what it stored."""
    moments = random.Random(seed)
    current = [start(db)]
    stop = threading.Event()
    acknowledged: list[list[int]] = [[] for _ in range(SENDERS)]
    senders = [
        threading.Thread(target=send, args=(number, current, stop, acknowledged[number]))
        for number in range(SENDERS)
    ]
    for sender in senders:
        sender.start()
    try:
        for _ in range(kills):
            threading.Event().wait(moments.uniform(0.05, 2.5))
            current[0].process.kill()
            current[0].process.wait()
            current[0].process.stderr.close()
            current[0] = start(db)
    finally:
        stop.set()
        for sender in senders:
            sender.join()
        code = current[0].stop()
        current[0].process.stderr.close()
    if code:
        raise AssertionError(f"exit code {code}")
    with Store.open(db, read_only=True) as store:
        stored = {
            int(span_id, 16) - 1: n
            for span_id, n in store.query("SELECT span_id, count(*) FROM spans GROUP BY 1")
        }
    sent = [number for numbers in acknowledged for number in numbers]
    missing = sum(number not in stored for number in sent)
    return Outcome(len(sent), missing, sum(stored.values()), max(stored.values(), default=0))


if __name__ == "__main__":
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as folder:
        outcome = kill_repeatedly(
            Path(folder) / "s.duckdb", kills, int(sys.argv[2]) if len(sys.argv) > 2 else 0
        )
    print(f"{kills} kills: {outcome}")
    sys.exit(bool(outcome.missing or outcome.max_rows > 1))
