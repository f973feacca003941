"""What alerts tell of streams of sessions, each value of which is another by turns."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import Any

import pytest
from alert_streams import DAY_NS, GATES, HOUR_NS, START_NS, alerts, new_database
from cases import cases, check
from made_once import copy_of, made_once
from pydantic import ValidationError

from spangrade import SpangradeError
from spangrade.evaluator.apps.server.grade.alerts import change_body, change_id
from spangrade.evaluator.apps.server.grade.options import Pages, WebhookFormat
from spangrade.evaluator.derive.schema import SESSIONS
from spangrade.evaluator.grading.alerts import AlertRule
from spangrade.evaluator.reports.html.links import ServerLinks
from spangrade.evaluator.results.alarms import AlarmChange, iso, stored_alarms
from spangrade.tracer.store import Store

PAGES = Pages("https://spans.example.com", ServerLinks())
LINK = re.compile(r"<https://[^|>]*\|(\w+)>")
# Of each row of a table: `n` is its number in its stream.
ADDED = """
INSERT INTO derived.sessions BY NAME
SELECT 0 AS batch, stream || '-' || period || '-' || n AS session_id, 'conversation' AS session_id_source,
    origin, from_ns + (n * length_ns) // sessions AS start_ns, '["' || stream || '"]' AS agents,
    true AS complete, false AS sampled, cost * (1 + n % 3 / 10) AS cost_usd, latency AS total_s,
    tokens AS input_tokens, tokens AS output_tokens, stream AS service_name, stream AS agent_version,
    stream AS environment, $zeros
FROM (SELECT *, unnest(range(sessions)) AS n FROM (SELECT unnest($rows, recursive := true)))
"""
VERDICTS = """
INSERT INTO verdicts BY NAME
SELECT 'run' AS run_id, session_id, verdict, if(verdict = 'failed', $reason, '') AS reason,
    1 AS place, 0 AS records
FROM (
    SELECT session_id,
        if(fail_every > 0 AND split_part(session_id, '-', 3)::INTEGER % fail_every = 0, $bad, 'passed')
        AS verdict
    FROM derived.sessions JOIN (SELECT unnest($rows, recursive := true)) AS rows
        ON starts_with(session_id, rows.stream || '-' || rows.period || '-')
)
"""
SCORES = """
INSERT INTO scores BY NAME
SELECT run_id, session_id, 'tool_success_rate' AS metric, if(verdict = 'failed', 0.5, 1.0) AS value,
    'score' AS outcome
FROM verdicts WHERE session_id NOT IN (SELECT session_id FROM scores)
"""
WATCHED = """
INSERT INTO watched BY NAME
SELECT session_id, $gates AS gates, '' AS content, 1 AS seq, run_id, verdict, start_ns AS graded_ns
FROM verdicts JOIN derived.sessions USING (session_id)
WHERE session_id NOT IN (SELECT session_id FROM watched)
"""


def add(store: Store, streams: dict[str, Any], period: str, from_ns: int, length_ns: int, bad: str) -> None:
    rows = [
        {"stream": name, "period": period, "from_ns": from_ns, "length_ns": length_ns, **one}
        for name, one in streams.items()
        if one["sessions"]
    ]
    if not rows:
        return
    named = {one.name for one in SESSIONS.columns if not one.nullable and f" AS {one.name}" not in ADDED}
    zeros = ", ".join(f"0 AS {name}" for name in sorted(named - {"origin"}))
    store.query(ADDED.replace("$zeros", zeros), {"rows": rows})
    reason = "tool_success_rate: 0.5, expected >= 1: failed: lookup <now> & then"
    store.query(VERDICTS, {"rows": rows, "reason": reason, "bad": bad})
    store.query(SCORES)
    store.query(WATCHED, {"gates": GATES})


def told(given: Any, db: Path) -> Any:
    try:
        rules = tuple(AlertRule.model_validate(rule) for rule in given["rules"])
    except ValidationError as error:
        return {"refused": [[".".join(map(str, one["loc"])), one["msg"]] for one in error.errors()]}
    bad, looks = given["bad"], given["looks"]
    with Store.open(copy_of(made_once("no-alerts-yet", new_database), db)) as store:
        before_ns = given["days"] * DAY_NS
        days = given["days"]
        before = {name: {**one, "sessions": one["sessions"] * days} for name, one in given["before"].items()}
        add(store, before, "before", START_NS - before_ns, before_ns, bad)
        try:
            watched = alerts(rules, START_NS - DAY_NS)
        except SpangradeError as error:
            return {"refused": str(error)}
        found: dict[str, Any] = {}
        for hour, until in itertools.pairwise([0, *looks]):
            streams = given["after"] if until <= given["back"] else given["before"]
            part = {
                name: {**one, "sessions": one["sessions"] * (until - hour) // 24}
                for name, one in streams.items()
            }
            add(store, part, f"h{until}", START_NS + hour * HOUR_NS, (until - hour) * HOUR_NS, bad)
            now_ns = START_NS + until * HOUR_NS
            with store.transaction():
                changes = watched.look(store, now_ns, START_NS - 30 * DAY_NS)
            if changes:
                told_now = [bodies(change, now_ns) for change in changes]
                found[f"{until} h"] = sorted(told_now, key=lambda one: str(one["slack"]))  # ids are random
        stored = sorted([one.alert, one.of, one.text, iso(one.ended_ns or 0)] for one in stored_alarms(store))
    return rounded({"told": found, "stored": stored})


def rounded(found: Any) -> Any:
    """Return what was found to six digits: SQL adds in any order."""
    if isinstance(found, float):
        return float(f"{found:.6g}")
    if isinstance(found, dict):
        return {key: rounded(value) for key, value in found.items()}
    return [rounded(one) for one in found] if isinstance(found, list | tuple) else found


def bodies(change: AlarmChange, now_ns: int) -> Any:
    body = change_body(change, WebhookFormat.STANDARD, now_ns, PAGES)
    assert change_id(change) != change_id(change._replace(is_over=not change.is_over))
    plain = change_body(change, WebhookFormat.STANDARD, now_ns)
    slack = str(change_body(change, WebhookFormat.SLACK, now_ns, PAGES)["text"])
    return {
        "body": {**body, "data": {**body["data"], "alarm_id": ""}},
        "without_pages": sorted(plain["data"]["streams"][0]),
        "slack": LINK.sub(r"<\1>", slack).splitlines(),
        "slack_without_pages": len(str(change_body(change, WebhookFormat.SLACK, now_ns)["text"])),
    }


@pytest.mark.parametrize(("file", "place"), cases("alerts"))
def test_an_alert_tells_what_its_streams_show(file: Path, place: str | None, tmp_path: Path) -> None:
    numbers = itertools.count()

    def outcome(given: Any) -> Any:
        return told(given, tmp_path / f"{next(numbers)}-{os.getpid()}.duckdb")

    check(file, place, outcome)
