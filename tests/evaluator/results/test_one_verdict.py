"""A session has one verdict: the same at every door, that by a golden question before that of a policy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import Spangrade
from made_once import copy_of_sample
from pages import elements, find, parsed, text
from paths import SAMPLE
from serving import serving

import spangrade as package
from spangrade.evaluator.results.views import place_verdicts
from spangrade.evaluator.statistics.agreement.statistics import Confusion
from spangrade.evaluator.statistics.agreement.stored import judged_as_people
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

GOLDEN = SAMPLE / "customer_service_golden.json"
SESSIONS = tuple(f"conversation-{number}" for number in range(1, 5))


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return copy_of_sample(tmp_path / "s.duckdb")


def at_every_door(db: Path, spangrade: Spangrade) -> list[Mapping[str, str | None]]:
    """Return the verdict of each session as each door has it."""
    opened = package.open(db)
    listed = json.loads("\n".join(spangrade("sessions", "--db", db, "--format", "json").out))
    failed = {row["session_id"] for row in opened.list_sessions(failed=True)}
    grades = {session_id: opened.latest_grade(session_id) for session_id in SESSIONS}
    doors = [
        {row["session_id"]: row["verdict"] for row in listed},
        {row["session_id"]: row["verdict"] for row in opened.list_sessions(sort="verdict", limit=9)},
        {row["session_id"]: row["verdict"] for row in opened.sql("FROM sessions")},
        {row["session_id"]: row["verdict"] for row in opened.sql("FROM grades WHERE shown")},
        {session_id: grade and grade.verdict for session_id, grade in grades.items()},
        {
            session_id: json.loads(
                "\n".join(spangrade("show", session_id, "--db", db, "--format", "json").out)
            )["grade"]["verdict"]
            for session_id in SESSIONS
        },
    ]
    verdicts = doors[0]
    assert failed == {one.session_id for one in opened.sessions(failed=True)}
    assert failed == {name for name, verdict in verdicts.items() if verdict in ("failed", "broken")}
    (point,) = opened.trend("passed", by="version").points
    decided = [verdict for verdict in verdicts.values() if verdict in ("passed", "failed")]
    assert (point.sessions, point.mean) == (len(decided), decided.count("passed") / len(decided))
    with serving(db) as served:
        rows = [row for row in elements(parsed(served.get("/sessions").text)) if row.get("data-session")]
        doors.append({str(row.get("data-session")): text(find(row, class_="verdict")) for row in rows})
        pages = {name: served.get(f"/session/{name}").text for name in SESSIONS}
        shown = {
            name: re.search(r'class="verdict (\w+)">\1</span> by the run', page)
            for name, page in pages.items()
        }
        doors.append({name: found and found[1] for name, found in shown.items()})
    return doors


@pytest.mark.exhaustive
def test_every_door_has_the_verdict_by_a_golden_question(db: Path, spangrade: Spangrade) -> None:
    opened = package.open(db)
    golden = opened.grade(GOLDEN, gates="tool_success_rate>=0.9")
    opened.grade(gates="token_usage<=0", name="policy")
    expected = {one.session_id: str(one.verdict) for one in golden.sessions if one.session_id}
    assert set(expected.values()) == {"passed", "failed"}
    assert at_every_door(db, spangrade) == [expected] * 8


def test_the_latest_verdict_counts_where_no_golden_question_judged(db: Path, spangrade: Spangrade) -> None:
    opened = package.open(db)
    opened.grade(gates="token_usage<=0")
    opened.grade(gates="tool_success_rate>=0.9")
    doors = at_every_door(db, spangrade)
    assert doors == [doors[0]] * 8
    assert sorted(filter(None, doors[0].values())) == ["failed", "failed", "passed", "passed"]


@pytest.mark.exhaustive
def test_runs_of_one_moment_give_one_answer_at_every_door(db: Path, spangrade: Spangrade) -> None:
    opened = package.open(db)
    runs = [opened.grade(gates=f"token_usage<={most}") for most in (0, 10**9, 0)]
    with Store.open(db) as store:
        store.query("UPDATE runs SET graded_at = TIMESTAMP '2026-01-01'")
        place_verdicts(store, [run.run_id for run in runs])
    first = min(runs, key=lambda run: run.run_id)
    expected = {one.session_id: str(one.verdict) for one in first.sessions}
    assert at_every_door(db, spangrade) == [expected] * 8


def test_a_session_shows_both_verdicts_the_golden_one_first(db: Path, spangrade: Spangrade) -> None:
    opened = package.open(db)
    opened.grade(GOLDEN, name="golden")
    opened.grade(gates="token_usage<=0", name="policy")
    grade = opened.latest_grade("conversation-1")
    assert grade is not None
    assert grade.policy is not None
    assert (grade.run, grade.verdict, grade.question_id) == ("golden", "passed", "order_status")
    assert (grade.policy.run, grade.policy.verdict, grade.policy.question_id) == ("policy", "failed", None)
    lines = [line.strip() for line in spangrade("show", "conversation-1", "--db", db).out]
    assert [
        re.sub(r"graded .* UTC (against \S+)?", "graded UTC ", line)
        for line in lines
        if line.endswith((", run golden", ", run policy"))
    ] == [
        "verdict   passed, graded UTC  run golden",
        "also      failed, graded UTC by gates alone, run policy",
    ]
    counted = opened.sql(
        "SELECT kind, shown, count(*) AS sessions FROM grades GROUP BY ALL ORDER BY ALL"
    ).rows()
    assert [tuple(row.values()) for row in counted] == [("golden", True, 4), ("policy", False, 4)]


@pytest.mark.exhaustive
def test_a_verdict_that_is_older_than_its_session_is_marked_at_every_door(
    db: Path, spangrade: Spangrade
) -> None:
    opened = package.open(db)
    opened.grade(GOLDEN, name="before")
    assert [row["session_id"] for row in opened.list_sessions(stale=True)] == []
    with Store.open(db) as store:
        ((trace_id, start_ns),) = store.query(
            "SELECT trace_id, max(end_ns) FROM spans JOIN derived.traces USING (trace_id) "
            "WHERE session_id = 'conversation-1' GROUP BY trace_id ORDER BY 2 DESC LIMIT 1"
        )
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"}
        late = Span(
            trace_id, "f" * 16, None, "execute_tool refund", "INTERNAL", start_ns, start_ns + 1, "ERROR"
        )
        store.add([late._replace(attributes=attributes)])
    marked = {
        "sessions": {row["session_id"] for row in opened.list_sessions() if row["arrived_since"]},
        "stale": {row["session_id"] for row in opened.list_sessions(stale=True)},
        "sql": {row["session_id"] for row in opened.sql("FROM sessions WHERE arrived_since")},
        "verdicts": {row["session_id"] for row in opened.sql("FROM arrived_since")},
        "grades": {
            name
            for name in SESSIONS
            if (grade := opened.latest_grade(name)) is not None and grade.arrived_since
        },
        "show": {
            name
            for name in SESSIONS
            if ", more arrived since" in "\n".join(spangrade("show", name, "--db", db).out)
        },
        "lines": {
            next(one for one in SESSIONS if one in line)
            for line in spangrade("sessions", "--all", "--db", db).out
            if line.startswith("passed, arrived since ")
        },
    }
    with serving(db) as served:
        rows = [row for row in elements(parsed(served.get("/sessions").text)) if row.get("data-session")]
        marked["list"] = {str(row.get("data-session")) for row in rows if "arrived since" in text(row)}
        marked["page"] = {name for name in SESSIONS if "arrived since" in served.get(f"/session/{name}").text}
    assert marked == {door: {"conversation-1"} for door in marked}
    (point,) = opened.trend("passed", by="version").points
    assert (point.sessions, point.unknown) == (3, 1)
    opened.grade(GOLDEN, name="after")
    assert [row["session_id"] for row in opened.list_sessions(stale=True)] == []
    line = "1 verdict of the first given before more of the session arrived: grade again"
    assert line in "\n".join(spangrade("compare", "before", "after", "--db", db).out)


def test_people_are_compared_with_the_verdict_of_a_rolling_run_as_of_when_it_was_given(db: Path) -> None:
    opened = package.open(db)
    rolling = opened.grade(gates="token_usage<=0", name="rolling")
    opened.grade(gates="token_usage<=1000000", name="later")
    opened.label("conversation-1", "pass", by="ann", metric="token_usage")
    with Store.open(db) as store:
        store.query("UPDATE runs SET judge = 'j', judge_calls = 1")
        for table, time in (("scores", "scored_at"), ("verdicts", "given_at")):
            given = f"UPDATE {table} SET {time} = runs.graded_at FROM runs WHERE runs.run_id = $run "
            store.query(given + f"AND {table}.run_id = $run", {"run": rolling.run_id})
        store.query(
            "UPDATE runs SET graded_at = graded_at + INTERVAL 1 day WHERE run_id = $run",
            {"run": rolling.run_id},
        )
    with Store.open(db, read_only=True) as store:
        ((version,),) = store.query("SELECT DISTINCT version FROM run_metrics WHERE metric = 'token_usage'")
        agreed = judged_as_people(store, ["j"], {"token_usage": [version]}, "passed")
    assert agreed == {"token_usage": Confusion(1, 0, 0, 0), "passed": Confusion(1, 0, 0, 0)}
