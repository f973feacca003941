"""Streams of sessions in a watched database, which SQL fills: without spans, thousands in a second."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from spangrade import GradeSpec
from spangrade.evaluator.apps.server.grade.alerts import Alerts
from spangrade.evaluator.apps.server.grade.tables import create_tables
from spangrade.evaluator.derive.schema import SESSIONS
from spangrade.evaluator.derive.sync.update import forget
from spangrade.evaluator.grading.alerts import AlertRule
from spangrade.evaluator.grading.prepare import prepare
from spangrade.tracer.store import Store

HOUR_NS = 3_600 * 10**9
DAY_NS = 24 * HOUR_NS
START_NS = 1_767_225_600 * 10**9
GATES = "gates"  # the policy by which they are graded
# `agents` streams of `each` sessions in a period by chance alone, which fail, and cost, as they do.
_SESSIONS = """
INSERT INTO derived.sessions BY NAME
SELECT
    0 AS batch,
    $prefix || '-' || uuid()::VARCHAR AS session_id,
    'conversation' AS session_id_source,
    'production' AS origin,
    $from + ($length * random())::BIGINT AS start_ns,
    '["' || $prefix || agent || '"]' AS agents,
    true AS complete,
    false AS sampled,
    -ln(1 - random()) * $cost * if(random() < 0.02, 25, 1) AS cost_usd,
    $zeros
FROM range($agents) AS agents(agent), range($each) AS numbers(i)
"""
_RUN = """
INSERT INTO runs (run_id, graded_at, dataset, metrics, thresholds)
VALUES ('run', TIMESTAMP '2026-01-01', '', [], '{}')
"""
_VERDICTS = """
INSERT INTO verdicts BY NAME
SELECT
    'run' AS run_id, session_id, verdict, if(verdict = 'failed', $reason, '') AS reason,
    1 AS place, 0 AS records
FROM (
    SELECT session_id, if(random() < $failing, 'failed', 'passed') AS verdict
    FROM derived.sessions WHERE session_id NOT IN (SELECT session_id FROM verdicts)
)
"""
_WATCHED = """
INSERT INTO watched BY NAME
SELECT session_id, $gates AS gates, '' AS content, 1 AS seq, run_id, verdict, start_ns AS graded_ns
FROM verdicts JOIN derived.sessions USING (session_id)
WHERE session_id NOT IN (SELECT session_id FROM watched)
"""


class _Prepared:
    """What the alerts need of a grade: the plan of its metrics, and the digest of its gates."""

    plan = prepare(GradeSpec.of(None, gates=["tool_success_rate>=1"]), None).plan
    key = GATES


def alerts(rules: tuple[AlertRule, ...], started_ns: int) -> Alerts:
    """Return alerts that were started at a time."""
    return Alerts(rules, _Prepared(), started_ns)  # type: ignore[arg-type]


class Stream(NamedTuple):
    """Some agents: the sessions of each in a period, the share that fails, and their mean cost."""

    prefix: str = "agent"
    agents: int = 1
    each: int = 400
    failing: float = 0.1
    cost: float = 0.01
    reason: str = "tool_success_rate: 0.5, expected >= 1: failed: lookup"


def new_database(db: Path) -> None:
    """Make a database in which nothing was watched yet."""
    with Store.open(db) as store:
        forget(store)
        create_tables(store)
        store.query(_RUN)


def add(store: Store, stream: Stream, from_ns: int, length_ns: int = DAY_NS) -> None:
    """Add the sessions of agents that start in a period, with their verdicts."""
    named = _SESSIONS
    zeros = ", ".join(
        f"0 AS {one.name}" for one in SESSIONS.columns if not one.nullable and f" AS {one.name}" not in named
    )
    parameters = {
        "prefix": stream.prefix,
        "from": from_ns,
        "length": length_ns,
        "agents": stream.agents,
        "each": stream.each,
        "cost": stream.cost,
    }
    store.query(named.replace("$zeros", zeros), parameters)
    store.query(_VERDICTS, {"failing": stream.failing, "reason": stream.reason})
    store.query(_WATCHED, {"gates": GATES})
