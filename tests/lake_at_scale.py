"""What a lake costs beside one process on a database file, and whether it gives the same rows.

    python tests/lake_at_scale.py 48000
    python tests/lake_at_scale.py 1000000 --rounds 2

The spans land as an unreliable network delivers them, 8,192 in a file. `spangrade import` reads the same
deliveries as OTLP JSON into a database; `spangrade lake update` makes new lakes of the files, in processes of
this machine and on Ray with one worker and two in alternation. One row is printed for each: the CPU seconds,
user and system, of all its processes and of the first one alone, the seconds that passed, and the largest sum
of the proportional set sizes, of all and of the first. It exits with 1 if a table differs by EXCEPT ALL, or
if an update on Ray takes more than 1.5 times the CPU time of the import. Needs Linux, spangrade[lake,ray] and
the group `lake`.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "lake"))
from processes import cpu_s, pss_mb, tree
from same_tables import differences
from servers import Postgres, postgres
from spans_of_many import Record, conversation, encoded, land

from spangrade.evaluator.apps.lake import api
from spangrade.evaluator.apps.lake.catalog import lake_at
from spangrade.tracer.span import Span

FILE = 8_192  # spans of a landing file
LATE = 6  # files after its own in which a record may arrive
MOST_CPU = 1.5
INTERVAL_S = 0.2


class Took(NamedTuple):
    """CPU and wall seconds and megabytes, of all processes and of the first."""

    cpu_s: float
    first_cpu_s: float
    wall_s: float
    memory_mb: float
    first_mb: float


def deliveries(spans: int, seed: int = 7) -> Iterator[list[Record]]:
    """Yield the records of files in their order: one in ten late, one span in twenty twice.

    A record lands in the file in which its conversation is, in the next one, or late in one of the next ones.
    No log arrives twice.
    """
    chance = random.Random(seed)
    waiting: list[list[Record]] = [[] for _ in range(LATE + 1)]
    for number in count():
        if spans <= 0:
            break
        for record in conversation(number):
            spans -= isinstance(record, Span)
            target = chance.randrange(1, LATE + 1) if chance.random() < 0.1 else chance.randrange(2)
            waiting[target].append(record)
            if isinstance(record, Span) and chance.random() < 0.05:
                waiting[(target + chance.randrange(1, LATE)) % LATE].append(record)
        if len(waiting[0]) >= FILE:
            chance.shuffle(waiting[0])
            yield waiting.pop(0)
            waiting.append([])
    yield from filter(None, waiting)


def run(*command: str | Path) -> Took:
    """Run a command of spangrade; exit if it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "spangrade", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    cpu: dict[int, float] = {}
    memory = first = 0.0
    for look in count():
        pids = tree(process.pid)
        for pid in pids:
            cpu[pid] = max(cpu_s(pid), cpu.get(pid, 0.0))
        if look % 10 == 0:  # it takes longer
            own = pss_mb(process.pid)
            memory = max(memory, own + sum(map(pss_mb, pids[1:])))
            first = max(first, own)
        time.sleep(INTERVAL_S)
        if process.poll() is not None:
            break
    wall_s = time.perf_counter() - started
    assert process.stderr is not None
    if process.returncode:
        sys.exit(f"{command}: exit {process.returncode}: {process.stderr.read().decode()[-1000:]}")
    return Took(sum(cpu.values()), cpu[process.pid], wall_s, memory, first)


def show(name: str, took: Took) -> None:
    """Print a row of the table."""
    print(
        f"{name:24} {took.cpu_s:8.1f} {took.first_cpu_s:8.1f} {took.wall_s:8.1f} {took.memory_mb:8.0f} "
        f"{took.first_mb:8.0f} {os.getloadavg()[0]:6.1f}",
        flush=True,
    )


class Lakes:
    """Lakes of the same landing files, each of which is compared with a database file."""

    def __init__(self, catalogs: Postgres, landing: Path, db: Path, folder: Path) -> None:
        self._catalogs = catalogs
        self._landing = landing
        self._db = db
        self._folder = folder
        self.differing = False

    def update(self, name: str, *options: str) -> Took:
        """Make a lake of all landing files and print what it took; note whether its rows differ."""
        catalog = self._catalogs.new_database()
        data = self._folder / name.replace(" ", "-").replace(",", "")
        command = ("lake", "update", "--lake", catalog, "--landing", self._landing, "--data", data)
        took = run(*command, *options)
        show(name, took)
        _, differing = differences(lake_at(catalog), self._db)
        if differing:
            self.differing = True
            print(f"  tables that differ: {differing}")
        self.last = catalog
        return took

    def show_size(self) -> None:
        """Print how large the last lake and its catalog are."""
        status = api.status(self.last)
        per_span = status.bytes / status.spans
        print(f"\n{status.spans} spans: {status.files} files, {per_span:.0f} bytes per span")
        for title, query in (
            ("catalog, rows", "SELECT sum(n_live_tup) FROM pg_stat_user_tables"),
            ("catalog, bytes", "SELECT pg_database_size(current_database())"),
        ):
            self._catalogs.execute(self.last, "ANALYZE")
            print(f"{title}: {self._catalogs.execute(self.last, query).strip()}")


def measure(spans: int, rounds: int, folder: Path, *, only_ray: bool) -> bool:
    """Print the table; return whether all rows are the same and the CPU time is within its limit."""
    landing, db, otlp = folder / "landing", folder / "one.duckdb", folder / "deliveries.otlp.jsonl"
    with otlp.open("w") as file:
        for number, records in enumerate(deliveries(spans)):
            land(str(landing), [records], first=number)
            file.writelines(f"{line}\n" for line in encoded(records))
    print(f"{'':24} {'CPU s':>8} {'first':>8} {'wall s':>8} {'MB':>8} {'first':>8} {'load':>6}")
    one = run("import", otlp, "--db", db, "--workers", "1")
    show("one process, import", one)
    if not only_ray:
        show("one process, derive", run("doctor", "--derive-all", "--db", db, "--workers", "1"))
    with postgres() as catalogs:
        lakes = Lakes(catalogs, landing, db, folder)
        if not only_ray:
            lakes.update("local, 1 worker")
            lakes.update("local, 2 workers", "--workers", "2")
        took: dict[int, list[Took]] = {1: [], 2: []}
        for number in range(1, rounds + 1):
            for workers, rows in took.items():
                name = f"Ray, {workers} worker{'s' if workers > 1 else ''}, {number}"
                rows.append(lakes.update(name, "--on", "ray", "--workers", str(workers)))
        lakes.show_size()
    cpu = [sum(row.cpu_s for row in rows) / rounds / one.cpu_s for rows in took.values()]
    speed_up = sum(row.wall_s for row in took[1]) / sum(row.wall_s for row in took[2])
    beside = rounds * one.wall_s / sum(row.wall_s for row in took[2])
    print(f"\nCPU on Ray against one process: {cpu[0]:.2f} with one worker, {cpu[1]:.2f} with two")
    print(f"two workers of Ray: {speed_up:.2f} times as fast as one, {beside:.2f} times as one process")
    print("the tables differ" if lakes.differing else "the tables are equal")
    return not lakes.differing and max(cpu) <= MOST_CPU


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("spans", type=int)
    parser.add_argument("--rounds", type=int, default=1, help="of Ray with one worker and with two")
    parser.add_argument("--only-ray", action="store_true", help="leave out derive and local processes")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # doubles start times
    with tempfile.TemporaryDirectory() as name:
        if not measure(arguments.spans, arguments.rounds, Path(name), only_ray=arguments.only_ray):
            sys.exit(1)


if __name__ == "__main__":
    main()
