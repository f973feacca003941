"""Fill the disk of a receiver and of commands: nothing may be lost, and all go on once there is space.

Run as root: `python tests/faults/disk.py [MiB]` mounts a tmpfs of that size.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import requests

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults.outcome import GOLDEN, Outcome, compare, random_text, run, spans_file, stored
from receiving import receiver, request


def fill_disk(folder: Path, size_mb: int) -> Outcome:
    """Send four times what the disk can hold, then delete a session; both must wait for space, not fail."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", folder], check=True)
    problems = []
    try:
        db = folder / "s.duckdb"
        acknowledged, rejected = [], 0
        with receiver(db) as running:
            for number in range(size_mb * 4):
                # Random text, because the database would compress anything else.
                body = request(
                    number * 200, 200, text=random_text(5000), **{"gen_ai.operation.name": "chat"}
                ).SerializeToString()
                response = requests.post(
                    running.http + "/v1/traces",
                    data=body,
                    headers={"Content-Type": "application/x-protobuf"},
                    timeout=30,
                )
                if response.ok:
                    acknowledged += range(number * 200, number * 200 + 200)
                else:
                    rejected += 1
                    if (response.status_code, response.headers.get("Retry-After")) != (503, "5"):
                        problems.append(f"answered {response.status_code}: {response.text}")
            subprocess.run(["mount", "-o", f"remount,size={size_mb * 8}m", folder], check=True)
            if code := running.stop():
                problems.append(f"the receiver ended with {code}")
        rows = stored(db)
        first_trace = f"{1:032x}"
        kept = [number for number in acknowledged if number >= 8]  # the first trace has 8 spans
        used_mb = db.stat().st_size // 2**20
        subprocess.run(["mount", "-o", f"remount,size={used_mb + 2}m", folder], check=True)
        full = run("delete", "--db", db, "--session", first_trace)
        if full.returncode != 2 or "their bytes are still in the file" not in full.stderr:
            problems.append(f"delete on a full disk: {full.returncode}: {full.stdout}{full.stderr}")
        subprocess.run(["mount", "-o", f"remount,size={size_mb * 8}m", folder], check=True)
        outcome = compare("a full disk", 1, acknowledged, rows, note=f"{rejected} requests rejected with 503")
        deleted = compare("", 1, kept, stored(db))
        if deleted.lost or deleted.stored != len(kept) or list(folder.glob("*.shrinking")):
            problems.append(f"after a deletion on a full disk: {deleted}, {sorted(folder.iterdir())}")
    finally:
        subprocess.run(["umount", folder], check=True)
    if not rejected:
        problems.append("the disk was not full")
    return outcome._replace(problems=(*outcome.problems, *problems))


def fill_under_commands(folder: Path, times: int, seed: int) -> Outcome:
    """Import and grade with little space, then with enough: spans are stored once, reports stay whole."""
    free_bytes = random.Random(seed)
    beside = folder.with_name(f"{folder.name}-beside")
    beside.mkdir()
    (beside / "golden.json").write_text(GOLDEN)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", folder], check=True)
    db, out, other = folder / "s.duckdb", folder / "out", folder / "other"
    problems: list[str] = []
    refused = 0
    try:
        for number in range(times):
            file = spans_file(beside / "spans.json", number * 200, 200, f"s{number}", random_text(5000))
            before = {one.name: one.read_bytes() for one in out.glob("*")}
            free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
            with other.open("wb") as filler:
                os.posix_fallocate(filler.fileno(), 0, free - free_bytes.randrange(2_000_000))
            grade = ("grade", beside / "golden.json", "--out", out, "--db", db)
            for command in (("import", file, "--db", db), grade):
                done = run(*command)
                refused += done.returncode == 2
                if done.returncode not in (0, 1, 2, 4) or (
                    done.returncode == 2 and done.stderr.count("\n") != 1
                ):
                    problems.append(f"{command[0]} ended with {done.returncode}: {done.stderr}")
            after = {one.name: one.read_bytes() for one in out.glob("*")}
            if done.returncode == 2 and after != before:
                problems.append(f"grade changed {sorted(after)}")
            other.unlink()
            for command in (("import", file, "--db", db), grade):
                done = run(*command)
                if done.returncode not in (0, 1, 4):
                    problems.append(f"{command[0]} with room ended with {done.returncode}: {done.stderr}")
        note = f"{refused} of {times * 2} commands refused in one line"
        outcome = compare("commands on a full disk", times, range(times * 200), stored(db), note=note)
    finally:
        subprocess.run(["umount", folder], check=True)
    if not refused:
        problems.append("the disk was not full")
    return outcome._replace(problems=tuple(problems))


if __name__ == "__main__":
    size_mb = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        (Path(two) / "disk").mkdir()
        outcomes = [fill_disk(Path(one), size_mb), fill_under_commands(Path(two) / "disk", 3, seed=0)]
    for outcome in outcomes:
        print(outcome)
    sys.exit(not all(outcome.passed for outcome in outcomes))
