"""Measure the pages of `spangrade view` on many sessions: `python tests/benchmarks/view_pages.py [SESSIONS]`.

Prints the shortest time of five requests over HTTP, and the CPU time of both sides.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from many_sessions import write_large_runs, write_sessions
from serving import serving

from spangrade.evaluator.apps.server.pages.labelling import Reviewer
from spangrade.evaluator.reports.html.grid_page import MAX_SESSIONS
from spangrade.evaluator.review.scores.queues import Queue

PATHS = (
    *(
        "/",
        "/overview/causes",
        "/sessions",
        "/tools",
        "/judge",
        "/sessions?sort=cost",
        "/sessions?verdict=failed",
        "/sessions?verdict=passed",
        "/sessions?verdict=not+graded",
        "/sessions?agent=refunds",
    ),
    "/sessions?tool=refund",
    *(
        "/sessions?model=gpt-5",
        "/sessions?version=1.2",
        "/sessions?since=2026-02-01&until=2026-02-03",
        "/sessions?errors=with",
    ),
    *("/sessions?min_cost=0.09&max_latency=20", "/sessions?error=session-ab"),
    "/sessions?agent=refunds&tool=refund&verdict=failed&min_cost=0.01",
    *(
        "/sessions?text=12+days",
        "/sessions?text=abc12",
        "/sessions?sort=verdict",
        "/count",
        "/count?tool=refund",
    ),
    *("/count?verdict=passed", "/sessions?sort=verdict&run=run-2"),
    *("/runs", "/run/run-1", "/run/run-1/summary", "/trends"),
    *(
        "/run/large-2?against=none",
        "/run/large-2?against=large-1",
        "/run/large-2?against=large-1&text=12+days",
    ),
    *("/run/large-2/rows?against=large-1&skip=50000", "/run/large-2/summary", "/compare?a=large-1&b=large-2"),
    *(f"/review{part}?queue={name}" for name in Queue for part in ("", "/next")),
)


def main(sessions: int) -> None:
    """Fill a database, serve it, and print the times."""
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "many.duckdb"
        write_sessions(db, sessions)
        write_large_runs(db, MAX_SESSIONS)
        with serving(db, Reviewer("ann")) as served:
            for path in PATHS:
                times = []
                for _ in range(5):
                    wall, cpu = time.perf_counter(), time.process_time()
                    answer = served.get(path)
                    times.append((time.perf_counter() - wall, time.process_time() - cpu))
                    assert answer.status == 200, answer
                shortest, cpu = (min(column) * 1000 for column in zip(*times, strict=True))
                print(f"{path:60} {shortest:8.0f} ms {cpu:8.0f} ms CPU", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
