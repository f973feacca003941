"""Fill the disk of a receiver: it must reject requests, recover, and lose nothing that it acknowledged.

Run as root: `python tests/faults/disk.py [MiB]` mounts a tmpfs of that size.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import requests

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults.outcome import Outcome, compare, random_text, run, stored
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        outcome = fill_disk(Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else 16)
    print(outcome)
    sys.exit(not outcome.passed)
