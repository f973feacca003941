"""Fill the disk under a receiver: it refuses for now, goes on, and keeps all that it acknowledged.

Run as root: `uv run --extra dev python tests/faults/disk.py [MiB]` mounts a tmpfs of that size for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import requests

sys.path.insert(0, str(Path(__file__).parents[1]))
from receiving import receiver, request

from spangrade.tracer.store import Store


def main(size_mb: int) -> int:
    """Send until the disk is full and well beyond; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", folder], check=True)
        try:
            db = Path(folder) / "s.duckdb"
            acknowledged, refused = [], 0
            with receiver(db) as running:
                for number in range(size_mb * 4):
                    # Random letters: the database would compress others away.
                    letters = os.urandom(2500).hex()
                    body = request(number * 200, 200, text=letters).SerializeToString()
                    answer = requests.post(
                        running.http + "/v1/traces",
                        data=body,
                        headers={"Content-Type": "application/x-protobuf"},
                        timeout=30,
                    )
                    if answer.ok:
                        acknowledged += range(number * 200, number * 200 + 200)
                    else:
                        refused += 1
                        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5"), answer.text
                health = requests.get(running.http + "/healthz", timeout=5).json()
                print(f"full: {len(acknowledged)} spans acknowledged, {refused} requests refused, {health}")
                subprocess.run(["mount", "-o", f"remount,size={size_mb * 8}m", folder], check=True)
                code = running.stop()
            with Store.open(db, read_only=True) as store:
                found = [int(span_id, 16) - 1 for (span_id,) in store.query("SELECT span_id FROM spans")]
        finally:
            subprocess.run(["umount", folder], check=True)
    missing = set(acknowledged) - set(found)
    print(f"after room was made: exit code {code}, {len(found)} stored, {len(missing)} missing")
    return bool(missing or len(found) != len(set(found)) or code or not refused)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 16))
