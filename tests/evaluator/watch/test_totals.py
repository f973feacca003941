"""The exported metrics: their series, at most so much of each, and what Prometheus reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_once import new_store
from otlp_sessions import Said, write_sessions
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import spangrade
from spangrade.evaluator.apps.server.grade import totals
from spangrade.evaluator.apps.server.grade.failures import Failed
from spangrade.evaluator.apps.server.grade.prometheus import TotalsCollector
from spangrade.evaluator.apps.server.grade.tables import create_tables
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.judge import Spent
from spangrade.evaluator.session import Session
from spangrade.tracer.store import Store

NOTHING = Spent()


@pytest.fixture
def session(tmp_path: Path) -> Session:
    file = write_sessions(tmp_path / "s.jsonl", [("one", (Said("hello"),))], version="1.2")
    (session,) = spangrade.sessions(file)
    return session


def added(db: Path, session: Session, agents: list[str], judge: Spent = NOTHING) -> dict[totals.Key, Any]:
    """Count a session that passed of each agent; return all totals."""
    grade = Grade(session.session_id, None, Verdict.PASSED, "", {})
    with Store.open(db) if db.exists() else new_store(db) as store:
        create_tables(store)
        each = [(totals.counted_of(replace(session, agents=(agent,))), grade) for agent in agents]
        with store.transaction():
            totals.add_to_totals(store, each, {}, judge, 5)
        return totals.read_totals(store)


def test_series_beyond_the_greatest_number_are_one_named_other(
    tmp_path: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "s.duckdb"
    most = totals.MAX_SERIES
    assert most == 1_000
    added(db, session, [f"agent {number}" for number in range(most - 1)])
    found = added(db, session, ["last", "agent 1", "beyond", "agent 2", "far beyond"])
    sessions = {
        totals.attributes_of(key)["gen_ai.agent.name"]: total.count
        for key, total in found.items()
        if key[0] == totals.SESSIONS
    }
    assert len(sessions) == most + 1
    assert {name: sessions[name] for name in ("last", "agent 1", "agent 2", "other")} == {
        "last": 1,
        "agent 1": 2,
        "agent 2": 2,
        "other": 2,
    }
    (other,) = (
        totals.attributes_of(key)
        for key in found
        if key[0] == totals.SESSIONS and totals.attributes_of(key)["gen_ai.agent.name"] == "other"
    )
    assert other == {"spangrade.verdict": "passed", **dict.fromkeys(totals.LABELS, "other")}


def test_prometheus_reads_what_otlp_gets(tmp_path: Path, session: Session) -> None:
    found = added(tmp_path / "s.duckdb", session, ["shop", "shop"], Spent(calls=3, cost_usd=0.25))
    found = added(tmp_path / "s.duckdb", session, [], Spent(calls=1, cost_usd=None))
    registry = CollectorRegistry()
    failed = {Failed("shop", "", "TimeoutError of look_up"): 3}
    registry.register(TotalsCollector(lambda: found, lambda: failed))
    text = generate_latest(registry).decode()
    samples = {
        (sample.name, sample.labels.get("le", "")): (sample.value, sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    labels = {
        "agent": "shop",
        "service": "",
        "environment": "",
        "model": "gemini-2.5-flash",
        "version": "1.2",
    }
    assert samples["spangrade_sessions_total", ""] == (2.0, {"verdict": "passed", **labels})
    of_failed = {"agent": "shop", "service": "", "cause": "TimeoutError of look_up"}
    assert samples["spangrade_failed_sessions_total", ""] == (3.0, of_failed)
    assert samples["spangrade_judge_calls_total", ""] == (4.0, {})
    assert samples["spangrade_judge_cost_usd_total", ""] == (0.25, {})
    assert samples["spangrade_latency_seconds_count", ""] == (2.0, labels)
    assert samples["spangrade_cost_usd_bucket", "+Inf"][0] == 2.0
    assert samples["spangrade_cost_usd_sum", ""][0] == pytest.approx(2 * (session.cost_usd or 0))


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        ([[2.0]], (1, 2.0, 2.0, 2.0, [0, 1, 0])),
        ([[0.0]], (1, 0.0, 0.0, 0.0, [1, 0, 0])),
        ([[1.0, 5.0, 0.5]], (3, 6.5, 0.5, 5.0, [2, 0, 1])),  # one equal to a bound is below it
        ([[3.0], [1.0]], (2, 4.0, 1.0, 3.0, [1, 1, 0])),
        ([[3.0], [9.0, 4.0]], (3, 16.0, 3.0, 9.0, [0, 2, 1])),
        ([[3.0], [0.0], [3.5]], (3, 6.5, 0.0, 3.5, [1, 2, 0])),
    ],
)
def test_a_total_has_the_least_and_the_greatest_value_and_how_many_are_below_each_bound(
    each: list[list[float]], expected: tuple[Any, ...]
) -> None:
    total = totals.Total(7)
    for values in each:
        total.add(values, (1.0, 4.0))
    assert (total.count, total.sum, total.min, total.max, total.buckets) == expected
    assert total.start_ns == 7


def test_each_metric_that_is_exported_has_a_unit_of_its_own_kind() -> None:
    assert [(one.name, one.unit) for one in totals.INSTRUMENTS.values()] == [
        ("spangrade.sessions", "{session}"),
        ("spangrade.score", "1"),
        ("spangrade.cost", "USD"),
        ("spangrade.latency", "s"),
        ("spangrade.judge.calls", "{call}"),
        ("spangrade.judge.cost", "USD"),
    ]
    assert all(" " in one.description for one in totals.INSTRUMENTS.values())
