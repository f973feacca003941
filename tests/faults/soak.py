"""Everything at once on two databases: nothing may be lost or doubled, the receivers' memory must be flat.

Run: `python tests/faults/soak.py [SECONDS]`. Each database has a receiver, three senders (one of them sends
spans of 2020), an agent that writes its own spans, and an importer, a grader, a reader and a retention run
(which deletes all before 2025), each of which starts again a second after it ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import requests

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults.outcome import GOLDEN, LOCKED, Outcome, run, spans_file, stored
from receiving import Receiver, request, start

SPANS = 96  # per request: whole traces of 8
PAUSE_S = 0.5  # of a sender: with 0.25 s a busy machine refused most commands, for all waited for the file
OLD = 2  # the sender of spans that the retention run deletes
IN_2020_NS = 1_590_000_000 * 10**9
AGENT = """
import sys, threading
from spangrade.tracer import configure
provider = configure("agent", db=sys.argv[1])
tracer = provider.get_tracer("agent")
stop, number = threading.Event(), 0
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
while not stop.wait(0.05):
    tracer.start_span("step").end()
    number += 1
print(number)
"""


@dataclass
class Lane:
    """A database, its receiver, and what was done to it."""

    folder: Path
    receiver: Receiver
    acknowledged: list[int] = field(default_factory=list)
    old_acknowledged: list[int] = field(default_factory=list)
    old_deleted: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    memory_kib: list[int] = field(default_factory=list)

    @property
    def db(self) -> Path:
        """The path of the database."""
        return self.receiver.db


def send(lane: Lane, sender: int, stop: threading.Event) -> None:
    """Send requests until `stop`, each again until it is acknowledged."""
    first = (sender + 1) * 100_000_000
    acknowledged = lane.old_acknowledged if sender == OLD else lane.acknowledged
    with requests.Session() as session:
        while not stop.wait(PAUSE_S):
            attributes = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": f"c{first}"}
            message = request(first, SPANS, text="x" * 500, **attributes)
            for span in message.resource_spans[0].scope_spans[0].spans if sender == OLD else ():
                span.start_time_unix_nano, span.end_time_unix_nano = IN_2020_NS, IN_2020_NS + 10**9
            while True:
                response = session.post(
                    lane.receiver.http + "/v1/traces",
                    data=message.SerializeToString(),
                    headers={"Content-Type": "application/x-protobuf"},
                    timeout=60,
                )
                if response.ok:
                    break
                lane.counts[f"answers of {response.status_code}"] += 1
                time.sleep(1)
            acknowledged.extend(range(first, first + SPANS))
            first += SPANS


def command(lane: Lane, name: str, *arguments: str | Path, codes: tuple[int, ...] = (0,)) -> str | None:
    """Run a command; return its output, None if the database was locked for too long."""
    done = run(name, "--db", lane.db, *arguments)
    if done.returncode == 2 and LOCKED in done.stderr:
        lane.counts[f"{name}: locked"] += 1
        return None
    lane.counts[name] += 1
    if done.returncode not in codes:
        lane.problems.append(f"{name}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def import_one(lane: Lane) -> None:
    """Import a file of new spans; every second time repeat it."""
    number = lane.counts["import"] + lane.counts["import: locked"]
    first = 1_000_000_000 + number * SPANS
    file = spans_file(lane.folder / "spans.json", first, SPANS, f"i{number}")
    if command(lane, "import", file) is not None:
        lane.acknowledged.extend(range(first, first + SPANS))
        if number % 2:
            command(lane, "import", file)


def retain(lane: Lane) -> None:
    """Delete what is before 2025, and count it."""
    output = command(lane, "delete", "--before", "2025-01-01", "--format", "json")
    if output:
        lane.old_deleted += json.loads(output)["spans"]


def grade(lane: Lane) -> None:
    """Grade all sessions; no verdict is a problem, a broken metric is."""
    command(lane, "grade", lane.folder / "golden.json", codes=(0, 1, 4))


def read(lane: Lane) -> None:
    """List the sessions."""
    command(lane, "sessions", "--format", "json")


def report(lane: Lane, action: Callable[[], None]) -> None:
    """Run an action; add an error to the lane's problems, or a thread would end unnoticed."""
    try:
        action()
    except Exception as error:  # noqa: BLE001
        lane.problems.append(f"{action}: {error!r}")


def repeat(lane: Lane, action: Callable[[Lane], None], stop: threading.Event) -> None:
    """Repeat an action until `stop`, a second after it ended."""
    while not stop.wait(1):
        action(lane)


def measure(lane: Lane) -> None:
    """Add the receiver's resident memory to the samples, every second."""
    status = Path(f"/proc/{lane.receiver.process.pid}/status").read_text()
    lane.memory_kib.append(int(status.split("VmRSS:")[1].split()[0]))


def finish(lane: Lane, agent: subprocess.Popen[str]) -> dict[int, int]:
    """Stop a lane's processes; return the rows of its spans."""
    made = int(agent.communicate("", timeout=120)[0])
    if code := lane.receiver.stop():
        lane.problems.append(f"the receiver ended with {code}")
    lane.receiver.process.stderr.close()
    rows = stored(lane.db)
    known = {*lane.acknowledged, *lane.old_acknowledged}
    own = sum(count for number, count in rows.items() if number not in known)
    if own != made:
        lane.problems.append(f"the agent made {made} spans, {own} are stored")
    return {number: count for number, count in rows.items() if number in known}


def soak(folder: Path, seconds: float) -> Outcome:
    """Run everything for some seconds and compare what is stored with what was acknowledged."""
    stop = threading.Event()
    lanes, agents, threads = [], [], []
    for number in range(2):
        place = folder / str(number)
        place.mkdir()
        (place / "golden.json").write_text(GOLDEN)
        lane = Lane(place, start(place / "s.duckdb"))
        lanes.append(lane)
        agents.append(
            subprocess.Popen(
                [sys.executable, "-c", AGENT, lane.db],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        works: list[Callable[[], None]] = [partial(send, lane, sender, stop) for sender in range(3)]
        works += [
            partial(repeat, lane, action, stop) for action in (import_one, grade, read, retain, measure)
        ]
        threads += [threading.Thread(target=report, args=(lane, work)) for work in works]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    lost = doubled = total = acknowledged = 0
    counts: Counter[str] = Counter()
    problems = []
    for lane, agent in zip(lanes, agents, strict=True):
        rows = finish(lane, agent)
        old = set(lane.old_acknowledged)
        lost += len(set(lane.acknowledged) - rows.keys())
        doubled += sum(count > 1 for count in rows.values())
        old_stored = sum(count for number, count in rows.items() if number in old)
        lost += max(0, len(old) - old_stored - lane.old_deleted)
        doubled += max(0, old_stored + lane.old_deleted - len(old))
        total += sum(rows.values()) + lane.old_deleted
        acknowledged += len(lane.acknowledged) + len(old)
        counts += lane.counts
        counts["spans deleted"] += lane.old_deleted
        problems += lane.problems
    # The first fifth of the samples is the warm-up.
    samples = [[kib // 1024 for kib in lane.memory_kib[len(lane.memory_kib) // 5 :]] for lane in lanes]
    tenth = max(1, min(map(len, samples)) // 8)
    at_start = sum(int(median(sample[:tenth])) for sample in samples)
    at_end = sum(int(median(sample[-tenth:])) for sample in samples)
    if at_end > at_start * 1.25 + 32:
        problems.append(f"memory grew from {at_start} to {at_end} MiB")
    note = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
    fault = f"everything at once, {seconds:.0f} s"
    return Outcome(
        *(fault, 1, acknowledged, total, lost, doubled, f"stored counts the deleted; {note}"),
        *(at_start, at_end, tuple(problems)),
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        outcome = soak(Path(folder), float(sys.argv[1]) if len(sys.argv) > 1 else 600)
    print(outcome)
    sys.exit(not outcome.passed)
