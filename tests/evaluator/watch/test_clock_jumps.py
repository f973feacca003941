"""A clock that is set back or ahead, by an hour or by years, holds up nothing for longer than a day."""

from __future__ import annotations

from pathlib import Path

import pytest
from sinks import hook
from watching import BAD, GATE, LATER, MINUTE, OK, Clock, add, prepared_by, rows, verdicts

from spangrade.evaluator.apps.server.grade import deliveries
from spangrade.evaluator.apps.server.grade.deliveries import RETRY_AFTER_S, WEBHOOK, Attempt
from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.apps.server.grade.tables import create_tables
from spangrade.evaluator.apps.server.grade.telemetry import metrics_of
from spangrade.evaluator.apps.server.grade.totals import SESSIONS, Total
from spangrade.evaluator.apps.server.grade.watch import Watch, spent_on_day
from spangrade.evaluator.apps.server.grade.webhook import Webhook
from spangrade.evaluator.judge import Spent
from spangrade.tracer.store import Store

HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY
JUMPS = {"20 years back": -20 * YEAR, "an hour back": -HOUR, "an hour ahead": HOUR, "in 2226": 200 * YEAR}
jumps = pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(deliveries.KEY_VARIABLE, "a key of the test")


def watch(db: Path, clock: Clock, steady: Clock, webhook: Webhook | None = None) -> Watch:
    options = WatchOptions(idle_s="5m", notify_since="1970-01-01")
    return Watch(db, prepared_by(gates=GATE), options, webhook=webhook, clock=clock, steady=steady)


@pytest.mark.exhaustive
@jumps
@pytest.mark.short_form("jump", 4)
def test_a_session_is_idle_once_that_time_has_passed(jump: int, tmp_path: Path) -> None:
    db, clock, steady = tmp_path / "s.duckdb", Clock(LATER), Clock(0)
    add(db, [("before", OK)])
    watching = watch(db, clock, steady)
    watching.round()
    add(db, [("running", BAD)])
    printed = [str(watching.round())]
    for minutes, jumped in ((4, jump), (2, 0)):
        clock.now_ns += minutes * MINUTE + jumped
        steady.now_ns += minutes * MINUTE
        printed.append(str(watching.round()))
    waiting = "1 session graded: 1 passed; 1 waiting until they are idle"
    assert printed == [waiting, waiting, "2 sessions graded: 1 passed, 1 failed"]


@pytest.mark.exhaustive
@jumps
@pytest.mark.short_form("jump", 4)
def test_a_restart_grades_what_waited(jump: int, tmp_path: Path) -> None:
    db, clock, steady = tmp_path / "s.duckdb", Clock(LATER), Clock(0)
    add(db, [("before", OK)])
    watch(db, clock, steady).round()
    add(db, [("running", BAD)])
    clock.now_ns += jump
    watching = watch(db, clock, steady)
    watching.round()
    clock.now_ns += 5 * MINUTE
    steady.now_ns += 5 * MINUTE
    watching.round()
    assert verdicts(db) == [("before", "passed"), ("running", "failed")]


@jumps
@pytest.mark.parametrize("attempts", [0, 1, len(RETRY_AFTER_S) - 1])
def test_a_message_is_due_at_once_or_within_a_day(attempts: int, jump: int, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        create_tables(store)
        deliveries.add(store, [("m", WEBHOOK, "s", {})], LATER)
        for _ in range(attempts):
            (one,) = deliveries.due(store, WEBHOOK, LATER + YEAR, 10)
            deliveries.record(store, [Attempt(one, "refused", wait_s=86_400.0)], LATER)
        moments = [LATER + jump + wait for wait in ((0, DAY) if attempts else (0,))]
        due = [one for now_ns in moments for one in deliveries.due(store, WEBHOOK, now_ns, 10)]
    assert {(one.id, one.attempts) for one in due} == {("m", attempts)}


@pytest.mark.exhaustive
def test_a_message_that_was_refused_by_a_clock_ahead_is_sent_once_by_the_right_one(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER + 200 * YEAR)
    add(db, [("bad", BAD)])
    with hook(lambda number: 400 if number == 1 else 204) as receiving:
        for now_ns in (LATER + 200 * YEAR, LATER, LATER + DAY):
            clock.now_ns = now_ns
            watch(db, clock, Clock(0), Webhook(receiving.url, b"a secret", pause_s=0.0)).round()
    assert (len(receiving.requests), len(receiving.applied)) == (2, 1)
    assert rows(db, "FROM deliveries") == []


@pytest.mark.parametrize("jump", [-20 * YEAR, -DAY, DAY, 200 * YEAR])
def test_what_a_judge_cost_on_another_day_is_not_of_the_budget_of_today(jump: int, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        create_tables(store)
        for time_ns in (LATER + jump, LATER):
            store.query("INSERT INTO watch_spending VALUES ($now, 3, 0.5)", {"now": time_ns})
        assert spent_on_day(store, LATER) == Spent(calls=3, cost_usd=0.5)


@jumps
def test_the_interval_of_a_metric_does_not_end_before_it_begins(jump: int) -> None:
    (metric,) = metrics_of({(SESSIONS, "{}"): Total(LATER, 3)}, LATER + jump)
    (point,) = metric.data.data_points
    assert point.start_time_unix_nano <= point.time_unix_nano == LATER + jump
