"""Fill the disk of a receiver: it must reject requests, recover, and lose nothing that it acknowledged.

Run as root: `python tests/faults/disk.py [MiB]` mounts a tmpfs of that size.
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
    """Send four times what the disk can hold; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", folder], check=True)
        try:
            db = Path(folder) / "s.duckdb"
            acknowledged, rejected = [], 0
            with receiver(db) as running:
                for number in range(size_mb * 4):
                    # Random text, because the database would compress anything else.
                    text = os.urandom(2500).hex()
                    body = request(number * 200, 200, text=text).SerializeToString()
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
                        assert (response.status_code, response.headers["Retry-After"]) == (503, "5"), (
                            response.text
                        )
                health = requests.get(running.http + "/healthz", timeout=5).json()
                print(f"full: {len(acknowledged)} spans acknowledged, {rejected} requests rejected, {health}")
                subprocess.run(["mount", "-o", f"remount,size={size_mb * 8}m", folder], check=True)
                code = running.stop()
            with Store.open(db, read_only=True) as store:
                stored = [int(span_id, 16) - 1 for (span_id,) in store.query("SELECT span_id FROM spans")]
        finally:
            subprocess.run(["umount", folder], check=True)
    missing = set(acknowledged) - set(stored)
    print(f"with more space: exit code {code}, {len(stored)} stored, {len(missing)} missing")
    return bool(missing or len(stored) != len(set(stored)) or code or not rejected)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 16))
