"""Damage files: a flipped bit in the spool, a file that is cut short, a clock that jumps.

Run: `python tests/faults/damage.py [FLIPS] [SEED]`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path

import requests

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults.outcome import Outcome, compare, run, stored
from receiving import Receiver, receiver, request, start

from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.spool import drain, folder_of, to_frames, waiting

FRAMES, SPANS = 100, 10  # of a segment; of a frame
# Runs the command line with a clock that is some seconds off.
SHIFTED = """
import runpy, sys, time
offset, now, now_ns = int(sys.argv.pop(1)), time.time, time.time_ns
time.time = lambda: now() + offset
time.time_ns = lambda: now_ns() + offset * 10**9
runpy.run_module("spangrade", run_name="__main__", alter_sys=True)
"""


def frames() -> list[bytes]:
    """Return the frames of a segment; the spans are numbered from 1."""

    def span(number: int) -> Span:
        times = (1_780_000_000_000_000_000, 1_780_000_001_000_000_000)
        return Span(
            "a" * 32, f"{number:016x}", None, "chat", "CLIENT", *times, attributes={"text": "x" * 200}
        )

    return [
        to_frames(rows_of([span(frame * SPANS + n + 1) for n in range(SPANS)])) for frame in range(FRAMES)
    ]


def load_damaged(db: Path, segment: bytes) -> dict[int, int]:
    """Load a segment into an empty database; return the rows of each span, by its number from 0."""
    folder = folder_of(db)
    folder.mkdir(exist_ok=True)
    (folder / f"{1:020d}-1-000000.spool").write_bytes(segment)
    with Store.open(db) as store:
        store.query("DELETE FROM spans")
        drain(store, on_damage=lambda _: None)
        rows = store.query("SELECT span_id, count(*) FROM spans GROUP BY 1")
    return {int(span_id, 16) - 1: n for span_id, n in rows}


def flip_bits(folder: Path, flips: int, seed: int) -> Outcome:
    """Flip a bit at random places of a segment: no frame may be lost but the one that it is in."""
    places = random.Random(seed)
    parts = frames()
    ends = list(accumulate(map(len, parts)))
    whole = b"".join(parts)
    lost = doubled = total = flipped_away = 0
    for _ in range(flips):
        place = places.randrange(len(whole))
        segment = bytearray(whole)
        segment[place] ^= 1 << places.randrange(8)
        rows = load_damaged(folder / "s.duckdb", bytes(segment))
        hit = next(number for number, end in enumerate(ends) if place < end)
        missing = set(range(FRAMES * SPANS)) - rows.keys()
        in_hit = missing & set(range(hit * SPANS, hit * SPANS + SPANS))
        flipped_away += len(in_hit)
        lost += len(missing - in_hit)
        doubled += sum(n > 1 for n in rows.values())
        total += sum(rows.values())
    note = f"{flipped_away} spans were in the {flips} frames of {SPANS} that were flipped; lost are others"
    return Outcome("a bit of the spool flipped", flips, flips * FRAMES * SPANS, total, lost, doubled, note)


def cut_spool(folder: Path, cuts: int, seed: int) -> Outcome:
    """Cut a segment at random places: every frame before the cut must be loaded."""
    places = random.Random(seed)
    parts = frames()
    ends = list(accumulate(map(len, parts)))
    whole = b"".join(parts)
    expected = lost = doubled = total = 0
    for _ in range(cuts):
        place = places.randrange(len(whole))
        rows = load_damaged(folder / "s.duckdb", whole[:place])
        intact = set(range(sum(end <= place for end in ends) * SPANS))
        expected += len(intact)
        lost += len(intact - rows.keys())
        doubled += sum(n > 1 for n in rows.values())
        total += sum(rows.values())
    note = "acknowledged: in the frames before the cut"
    return Outcome("a segment cut short", cuts, expected, total, lost, doubled, note)


def post(to: Receiver, first: int, count: int, start_ns: int | None = None) -> list[int]:
    """Send spans; return their numbers if they were acknowledged."""
    message = request(first, count, **{"gen_ai.operation.name": "chat"})
    for span in message.resource_spans[0].scope_spans[0].spans if start_ns is not None else ():
        span.start_time_unix_nano, span.end_time_unix_nano = start_ns, start_ns + 10**9
    headers = {"Content-Type": "application/x-protobuf"}
    response = requests.post(
        to.http + "/v1/traces", data=message.SerializeToString(), headers=headers, timeout=30
    )
    return list(range(first, first + count)) if response.ok else []


def truncate_database(folder: Path) -> Outcome:
    """Cut the database under a running receiver: what comes after must be stored in a new one."""
    db = folder / "s.duckdb"
    problems = []
    with receiver(db) as running:
        before = post(running, 0, 400)
        give_up_s = time.monotonic() + 60
        while (not db.exists() or waiting(db) or list(folder_of(db).glob("*.open"))) and (
            time.monotonic() < give_up_s
        ):
            time.sleep(0.1)
        if len(stored(db)) < len(before):  # it waits until the receiver has closed the file
            problems.append("the first spans were not loaded within a minute")
        with db.open("r+b") as file:
            file.truncate(5000)
        acknowledged = post(running, 400, 400)
        shown = run("sessions", "--db", db)
        if shown.returncode != 2 or len(shown.stderr.splitlines()) != 1:
            problems.append(f"sessions: exit code {shown.returncode}: {shown.stderr.strip()}")
        db.rename(folder / "cut.duckdb")
        acknowledged += post(running, 800, 400)
        if code := running.stop():
            problems.append(f"the receiver ended with {code}")
    rows = stored(db)
    note = f"the {len(before)} spans in the cut file are gone with it"
    return compare("the database cut to 5,000 bytes", 1, acknowledged, rows, note=note, problems=problems)


def start_shifted(db: Path, offset_s: int) -> Receiver:
    """Start a receiver whose clock is some seconds off."""
    return start(db, python=[sys.executable, "-c", SHIFTED, str(offset_s)])


def jump_clock(folder: Path) -> Outcome:
    """Restart a killed receiver with its clock set back and ahead, with spans of the past and the future."""
    db = folder / "s.duckdb"
    acknowledged: list[int] = []
    problems = []
    offsets = (0, -86_400, 10 * 365 * 86_400, -20 * 365 * 86_400)
    starts = (None, 1, 7_258_118_400 * 10**9, None)  # 1970 and 2200
    for number, (offset_s, start_ns) in enumerate(zip(offsets, starts, strict=True)):
        running = start_shifted(db, offset_s)
        acknowledged += post(running, number * 400, 400, start_ns)
        if number < len(offsets) - 1:
            running.process.kill()
            running.process.wait()
        elif code := running.stop():
            problems.append(f"the receiver ended with {code}")
        running.process.stderr.close()
    rows = stored(db)
    for arguments in (["sessions"], ["lint"], ["delete", "--before", "30d", "--dry-run"]):
        for offset_s in offsets:
            done = subprocess.run(
                [sys.executable, "-c", SHIFTED, str(offset_s), *arguments, "--db", str(db)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode not in (0, 4) or done.stderr:  # lint has findings
                problems.append(f"{arguments[0]} at {offset_s} s: {done.stderr.strip()}")
    note = "the clock 1 day and 20 years back, 10 years ahead; spans of 1970 and 2200"
    return compare("the clock jumped", len(offsets) - 1, acknowledged, rows, note=note, problems=problems)


if __name__ == "__main__":
    flips = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    outcomes = []
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        outcomes += [flip_bits(Path(one), flips, seed), cut_spool(Path(one), 20, seed)]
        outcomes += [truncate_database(Path(two))]
    with tempfile.TemporaryDirectory() as three:
        outcomes += [jump_clock(Path(three))]
    for outcome in outcomes:
        print(outcome)
    sys.exit(not all(outcome.passed for outcome in outcomes))
