"""A day of production in short: the full form is `tests/faults/production_day.py`, which `.ci/long` runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults.production_day import GATES, plans, problems, requests_of, send, unreliable
from receiving import receiver
from sinks import hook, http_sink

SESSIONS = 40

# Watches once in a child for each number: the child is killed at that call of a function of `watch` or of the
# store. With 0 it is not killed. The clock stands still at what the environment says.
KILLED = """
import os, signal, sys

from spangrade.evaluator.apps.server.grade import telemetry, watch, webhook
from spangrade.evaluator.grading.prepare import prepare
from spangrade import GradeSpec
from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.apps.server.grade.watch import Watch
import spangrade.evaluator.database, requests
from pathlib import Path

db, url, now = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
watch.BATCH = 15  # several batches of few sessions

def child(kill_at):
    calls = 0
    def count(frame, event, _):
        nonlocal calls
        if event == "call" and frame.f_code.co_filename.endswith(FILES):
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
    FILES = ("watch.py", "record.py", "deliveries.py", "webhook.py", "telemetry.py", "totals.py", "store.py")
    watching = Watch(
        db, prepare(GradeSpec.of(None, sys.argv[4].split()), None),
        WatchOptions(idle_s=60, notify_since="1970-01-01"),
        webhook=webhook.Webhook(url, b"a secret", pause_s=0.0),
        telemetry=telemetry.Telemetry(),
        clock=lambda: now,
    )
    if kill_at:
        sys.setprofile(count)
    summary = watching.round()
    sys.setprofile(None)
    print(summary, calls, flush=True)
    os._exit(0)

for kill_at in map(int, sys.argv[5:]):
    if (pid := os.fork()) == 0:
        child(kill_at)
    _, status = os.waitpid(pid, 0)
    print(kill_at, os.WTERMSIG(status) if os.WIFSIGNALED(status) else "done", flush=True)
"""


@pytest.mark.exhaustive
def test_a_day_of_production_is_graded_once_whatever_is_killed(tmp_path: Path) -> None:
    db = tmp_path / "day.duckdb"
    day = plans(SESSIONS, seed=3)
    start_ns = 1_767_258_000_000_000_000
    parts = [requests_of(plan, number, start_ns, tmp_path) for number, plan in enumerate(day)]
    now_ns = start_ns + (SESSIONS + 10) * 10**12
    assert {plan.tool_fails for plan in day} == {plan.twice for plan in day} == {True, False}
    assert any(part.late for part in parts)

    with hook(unreliable) as hooked, http_sink() as sink:

        def watch(at_ns: int, *kills: int) -> list[str]:
            arguments = [db, hooked.url, at_ns, " ".join(GATES), *kills]
            environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint}
            command = [sys.executable, "-c", KILLED, *map(str, arguments)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            return done.stdout.splitlines()

        def deliver(bodies: list[tuple[str, bytes]]) -> None:
            with receiver(db) as receiving:
                send(receiving.http, bodies)
                assert receiving.stop() == 0

        deliver([body for part in parts for body in part.first])
        kills = (20, 150, 260, 420)
        assert watch(now_ns, *kills, 0)[: len(kills)] == [f"{number} 9" for number in kills]
        deliver([body for part in parts for body in part.late])
        later_ns = now_ns + 10**12
        kills = (15, 140, 200)
        assert watch(later_ns, *kills, 0)[: len(kills)] == [f"{number} 9" for number in kills]
        for wait in range(1, 5):  # what the webhook refused is due later
            watch(later_ns + wait * 10**12, 0)
        assert problems(db, day, hooked, sink) == []
