"""Measure the pages of `spangrade view` on many sessions: `python tests/benchmarks/view_pages.py [SESSIONS]`.

Prints the shortest time of five requests over HTTP, and the CPU time of both sides.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from many_sessions import write_sessions
from serving import serving

from spangrade.evaluator.view.grid_page import MAX_SESSIONS
from spangrade.evaluator.view.labelling import Reviewer
from spangrade.evaluator.view.review_page import QUEUES
from spangrade.tracer.store import Store

PATHS = (
    *("/", "/?sort=cost", "/?verdict=failed", "/?verdict=passed", "/?verdict=not+graded", "/?agent=refunds"),
    "/?tool=refund",
    *("/?model=gpt-5", "/?version=1.2", "/?since=2026-02-01&until=2026-02-03", "/?errors=with"),
    *("/?min_cost=0.09&max_latency=20", "/?error=session-ab"),
    "/?agent=refunds&tool=refund&verdict=failed&min_cost=0.01",
    *("/?text=12+days", "/?text=abc12", "/?sort=verdict", "/count", "/count?tool=refund"),
    *("/count?verdict=passed", "/?sort=verdict&run=run-2"),
    *("/runs", "/run/run-1", "/run/run-1/summary", "/trends"),
    *(
        "/run/large-2?against=none",
        "/run/large-2?against=large-1",
        "/run/large-2?against=large-1&text=12+days",
    ),
    *("/run/large-2/rows?against=large-1&skip=50000", "/run/large-2/summary", "/compare?a=large-1&b=large-2"),
    *(f"/review{part}?queue={name}" for name in QUEUES for part in ("", "/next")),
)
# Two runs that are as large as a grid can be, of one dataset: a question for each session, 20 metrics. A
# tenth of the sessions fails, another tenth in each run.
_LARGE_RUNS = (
    """
    INSERT INTO runs (run_id, graded_at, dataset, metrics, thresholds)
    SELECT 'large-' || run, TIMESTAMP '2026-02-01' + to_days(run::INTEGER), 'large.json', ['metric-0>=0.9'],
        '{"metric-0":">= 0.9"}'
    FROM range(1, 3) AS runs(run)
    """,
    """
    INSERT INTO verdicts BY NAME
    SELECT 'large-' || run AS run_id, session_id, 'question ' || session_id AS question_id, verdict,
        CASE verdict WHEN 'failed' THEN 'metric-0: 0.5, expected >= 0.9' ELSE '' END AS reason
    FROM (
        SELECT run, session_id,
            CASE hash(session_id, run) % 10 WHEN 0 THEN 'failed' ELSE 'passed' END AS verdict
        FROM (SELECT session_id FROM derived.sessions ORDER BY session_id LIMIT $sessions),
            range(1, 3) AS runs(run)
    )
    """,
    """
    INSERT INTO scores BY NAME
    SELECT run_id, session_id, 'metric-' || number AS metric, question_id,
        CASE WHEN number > 0 THEN hash(session_id, run_id, number) % 100 / 100
            WHEN verdict = 'failed' THEN 0.5 ELSE 1 END AS value,
        CASE WHEN number = 0 THEN verdict = 'passed' END AS passed,
        'score' AS outcome, '' AS reason, '[]' AS evidence
    FROM verdicts, range(20) AS metrics(number)
    WHERE run_id IN ('large-1', 'large-2')
    """,
    """
    INSERT INTO run_metrics BY NAME
    SELECT DISTINCT run_id, metric, true AS higher_is_better, '' AS unit, 0 AS lowest, 1 AS highest
    FROM scores WHERE run_id IN ('large-1', 'large-2')
    """,
)


def write_large_runs(db: Path) -> None:
    """Add two runs to a database of sessions: each of as many of them as a grid can have."""
    with Store.open(db) as store, store.transaction():
        for statement in _LARGE_RUNS:
            store.query(statement, {"sessions": MAX_SESSIONS} if "$sessions" in statement else None)


def main(sessions: int) -> None:
    """Fill a database, serve it, and print the times."""
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "many.duckdb"
        write_sessions(db, sessions)
        write_large_runs(db)
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
