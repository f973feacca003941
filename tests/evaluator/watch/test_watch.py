"""Grading sessions as they become idle: each once for its content, whatever happens to the process."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from otlp_sessions import START_NS, Said, write_golden, write_sessions
from watching import BAD, GATE, LATER, MINUTE, OK, Clock, add, prepared_by, rows, verdicts

import spangrade
from spangrade import InputError, StoreError
from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.apps.server.grade.watch import Watch
from spangrade.evaluator.grading.prepare import Prepared
from spangrade.evaluator.grading.run_list import find_run_id
from spangrade.evaluator.grading.selection import is_sampled
from spangrade.evaluator.judge import Judgement, JudgeOptions, Question, use_judge
from spangrade.evaluator.reports.html.run_page import runs_page
from spangrade.evaluator.reports.html.run_summary import run_summary
from spangrade.tracer.files import read
from spangrade.tracer.span import LogRecord, Problem
from spangrade.tracer.store import Store


def watch(db: Path, clock: Clock, gates: Prepared | None = None, **options: Any) -> Watch:
    return Watch(db, gates or prepared_by(gates=GATE), WatchOptions(**options), clock=clock, steady=clock)


def test_sessions_are_graded_when_they_are_idle_and_only_once(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    add(db, [("good", OK), ("bad", BAD)])
    clock = Clock(START_NS + 2 * MINUTE)
    watching = watch(db, clock)
    first = watching.round()
    assert str(first) == "0 sessions graded; 2 waiting until they are idle"
    assert first.first_due_ns is not None
    assert clock.now_ns < first.first_due_ns <= clock.now_ns + 5 * MINUTE
    clock.now_ns = LATER
    assert str(watching.round()) == "2 sessions graded: 1 passed, 1 failed"
    assert str(done := watching.round()) == "2 sessions graded: 1 passed, 1 failed"
    assert done.first_due_ns is None
    assert str(watch(db, clock).round()) == "0 sessions graded"
    assert verdicts(db) == [("bad", "failed"), ("good", "passed")]
    gate = "SELECT session_id, value, passed FROM scores WHERE metric = 'tool_success_rate' ORDER BY ALL"
    assert rows(db, gate) == [("bad", 0.0, False), ("good", 1.0, True)]


def test_late_spans_grade_a_session_again_and_what_was_delivered_before_does_not(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    both = (*OK, *BAD)
    add(db, [("a", OK), ("b", OK)])
    watching = watch(db, clock)
    watching.round()
    add(db, [("a", OK), ("b", OK)])
    clock.now_ns += MINUTE
    watching.round()
    assert verdicts(db) == [("a", "passed"), ("b", "passed")]
    add(db, [("a", both)])
    clock.now_ns += MINUTE
    assert str(watching.round()) == "2 sessions graded: 2 passed; 1 waiting until they are idle"
    clock.now_ns += 5 * MINUTE
    watching.round()
    assert verdicts(db) == [("a", "failed"), ("b", "passed")]


@pytest.mark.exhaustive
def test_what_arrives_while_it_watches_counts_from_its_arrival_however_old_it_is(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("first", OK)])
    watching = watch(db, clock)
    watching.round()
    for part in (0, 1, 2):  # an agent that was offline sends its session span by span
        clock.now_ns += 4 * MINUTE
        file = write_sessions(tmp_path / "part.jsonl", [("second", OK)])
        with Store.open(db) as store:
            store.add([one for one in read(file) if not isinstance(one, Problem)][part : part + 1])
        watching.round()
    assert verdicts(db) == [("first", "passed")]
    clock.now_ns += 5 * MINUTE
    watching.round()
    assert verdicts(db) == [("first", "passed"), ("second", "passed")]


def test_a_restart_goes_on_where_it_stopped(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("first", OK)])
    watch(db, clock).round()
    add(db, [("first", OK), ("second", BAD)])
    clock.now_ns += 2 * MINUTE
    watch(db, clock).round()  # it arrived since the last look, two minutes ago
    assert verdicts(db) == [("first", "passed")]
    clock.now_ns += 6 * MINUTE
    watch(db, clock).round()
    assert verdicts(db) == [("first", "passed"), ("second", "failed")]


@pytest.mark.exhaustive
def test_other_gates_grade_every_session_again(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("a", BAD)])
    watch(db, clock).round()
    watch(db, clock, prepared_by(gates=["tool_success_rate>=0"])).round()
    assert verdicts(db) == [("a", "failed"), ("a", "passed")]


def test_golden_questions_gate_the_sessions_that_answer_them(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("a", OK), ("b", (Said("other"),))])
    expected = {"reference_tool_interactions": [{"tool_name": "missing"}]}
    golden = write_golden(tmp_path / "golden.json", {"id": "q", "user_inputs": ["hello"], **expected})
    watch(db, clock, prepared_by(golden)).round()
    assert rows(db, "SELECT session_id, question_id, verdict FROM verdicts ORDER BY ALL") == [
        ("a", "q", "failed"),
        ("b", None, "unmatched"),
    ]


def test_a_sample_is_the_same_each_time_and_a_larger_one_holds_it(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER + 2_000 * MINUTE)
    ids = [f"session-{number}" for number in range(60)]
    add(db, [(name, OK) for name in ids])
    watch(db, clock, prepared_by(gates=GATE, select=spangrade.Selection(sample=0.2))).round()
    few = {session_id for session_id, _ in verdicts(db)}
    assert few == {name for name in ids if is_sampled(name, 0.2)}
    assert 3 <= len(few) <= 25
    assert few < {name for name in ids if is_sampled(name, 0.5)}
    assert all(is_sampled(name, 1.0) and not is_sampled(name, 0.0) for name in ids)


def test_sessions_before_since_are_left_out(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("old", OK)])
    add(db, [("new", OK)], start_ns=START_NS + 60 * MINUTE)
    since = datetime.fromtimestamp((START_NS + 30 * MINUTE) / 1e9, UTC)
    watch(db, clock, prepared_by(gates=GATE, select=spangrade.Selection(since=since))).round()
    assert verdicts(db) == [("new", "passed")]


@pytest.mark.exhaustive
def test_more_sessions_than_a_batch_holds_are_graded_in_one_look(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER + 10_000 * MINUTE)
    add(db, [(f"s{number}", OK) for number in range(450)])
    assert str(watch(db, clock).round()) == "450 sessions graded: 450 passed"
    assert rows(db, "SELECT count(*), any_value(day)::VARCHAR FROM runs") == [(1, "2026-01-08")]


def test_a_session_that_was_deleted_is_forgotten(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("kept", OK), ("deleted", BAD)])
    watching = watch(db, clock)
    watching.round()
    spangrade.open(db).delete("deleted")
    assert rows(db, "SELECT session_id FROM watched") == [("kept",)]
    assert str(watching.round()) == "2 sessions graded: 1 passed, 1 failed"
    assert verdicts(db) == [("kept", "passed")]


@pytest.mark.exhaustive
def test_a_log_record_that_changes_nothing_is_no_reason_to_grade_again(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("a", OK)])
    watching = watch(db, clock)
    watching.round()
    ((trace_id, span_id),) = rows(db, "SELECT trace_id, span_id FROM spans ORDER BY seq LIMIT 1")
    with Store.open(db) as store:
        store.add([LogRecord(trace_id, span_id, LATER, "other", body="text")])
    clock.now_ns += 60 * MINUTE
    watching.round()
    assert verdicts(db) == [("a", "passed")]
    ((seen,),) = rows(db, "SELECT seq FROM watched")
    assert [(seen,)] == rows(db, "SELECT max(seq) FROM logs")


class Judging:
    """A judge that says yes, at 1 cent a question."""

    name = "made/up"

    def __init__(self, cost_usd: float | None = 0.01) -> None:
        self.cost_usd = cost_usd
        self.asked = 0

    async def ask(self, question: Question) -> Judgement:
        self.asked += 1
        return Judgement(True, 5.0, "fine", 10, 5, self.cost_usd)


@pytest.mark.exhaustive
@pytest.mark.parametrize("limit", [{"max_calls": 2}, {"max_cost_usd": 0.02}])
@pytest.mark.short_form("limit", 2)
def test_the_budget_of_the_judge_is_for_a_day_and_outlasts_a_restart(
    tmp_path: Path, limit: dict[str, Any]
) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [(f"s{number}", (Said(f"hello {number}"),)) for number in range(5)])
    gates = prepared_by(gates=["response_correctness@judge>=0"], judge=JudgeOptions(**limit))
    with use_judge(judge := Judging()):
        watching = watch(db, clock, gates)
        summary = "2 sessions graded: 2 passed; 3 waiting for tomorrow's budget of the judge"
        assert str(watching.round()) == summary
        assert str(watching.round()) == summary
        watch(db, clock, gates).round()
        assert judge.asked == 2
        assert len(verdicts(db)) == 2
        clock.now_ns += 24 * 60 * MINUTE
        watching.round()
        assert judge.asked == 4
        clock.now_ns += 24 * 60 * MINUTE
        watching.round()
        assert judge.asked == 5
    assert verdicts(db) == [(f"s{number}", "passed") for number in range(5)]
    assert rows(db, "SELECT judge_calls FROM runs ORDER BY judge_calls") == [(1,), (2,), (2,)]


@pytest.mark.exhaustive
def test_a_judge_whose_price_is_unknown_spends_no_budget_in_money(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [(f"s{number}", (Said(f"hello {number}"),)) for number in range(3)])
    gates = prepared_by(gates=["response_correctness@judge>=0"], judge=JudgeOptions(max_cost_usd=1.0))
    with use_judge(judge := Judging(cost_usd=None)):
        watch(db, clock, gates).round()
        asked = judge.asked
        add(db, [("later", (Said("hello again"),))], start_ns=START_NS + 100 * MINUTE)
        clock.now_ns += 60 * MINUTE
        watch(db, clock, gates).round()
    assert judge.asked == asked


def test_without_a_database_it_waits_and_once_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such database: start `spangrade serve --only receive`"):
        watch(tmp_path / "none.duckdb", Clock(LATER)).round()


def test_nothing_to_grade_by_is_an_error() -> None:
    with pytest.raises(InputError, match=r"nothing to grade by: expected a dataset, a gate"):
        spangrade.open("s.duckdb").watch(gates="token_usage")


def test_looks_that_fail_alike_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class AfterThree(threading.Event):
        """An event that is set when it was waited for three times, without a pause."""

        waits = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.waits += 1
            if self.waits == 3:
                self.set()
            return self.is_set()

    db, stop = tmp_path / "s.duckdb", AfterThree()
    db.mkdir()
    watch(db, Clock(LATER)).run(stop)
    (message,) = caplog.messages
    assert (stop.waits, str(db) in message) == (3, True)


@pytest.mark.exhaustive
def test_the_grades_of_a_policy_and_day_are_one_rolling_run_that_is_never_the_latest(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("first", OK)])
    of_people = spangrade.open(db).grade(gates=GATE, name="people").run_id
    watching = watch(db, clock)
    watching.round()
    add(db, [("second", BAD)])
    clock.now_ns += 10 * MINUTE
    watching.round()
    watch(db, clock, prepared_by(gates="cost<=1")).round()
    clock.now_ns += 24 * 60 * MINUTE
    add(db, [("third", OK)], start_ns=clock.now_ns - 20 * MINUTE)
    watching.round()
    opened = spangrade.open(db)
    assert sorted((f"{row['day']}", row["sessions"]) for row in opened.list_runs(watched=True)) == [
        ("2026-01-01", 2),
        ("2026-01-01", 2),
        ("2026-01-02", 1),
    ]
    assert [row["name"] for row in opened.list_runs()] == ["people"]
    assert [one.run_id for one in opened.runs()] == [of_people]
    printed = [
        json.loads("\n".join(run("runs", "--db", db, "--format", "json", *more).out))
        for more in ((), ("--watch",))
    ]
    assert [[one["name"] for one in listed] for listed in printed] == [
        ["people"],
        ["watch:2026-01-02", "watch:2026-01-01", "watch:2026-01-01"],
    ]
    with opened.stored.reading() as store:
        assert find_run_id(store, "latest") == of_people
        assert [one["name"] for one in runs_page(store, 1)["runs"]] == ["people"]
        assert len(runs_page(store, 1, watched=True)["runs"]) == 3
        assert run_summary(store, None, 10).run_id == of_people


@pytest.mark.exhaustive
def test_a_rolling_run_has_one_grade_of_a_session_dated_when_it_was_graded(tmp_path: Path) -> None:
    db, clock = tmp_path / "s.duckdb", Clock(LATER)
    add(db, [("early", BAD), ("late", OK)])
    watching = watch(db, clock)
    watching.round()
    spangrade.open(db).grade(gates="tool_success_rate>=0", name="people")
    add(db, [("early", BAD), ("late", (*OK, *BAD))])
    clock.now_ns += 10 * MINUTE
    watching.round()
    # A later grade of another session in the same run does not date this one later: that of people counts.
    assert rows(db, "SELECT session_id, verdict, name FROM grades JOIN runs USING (run_id) ORDER BY ALL") == [
        ("early", "passed", "people"),
        ("late", "failed", "watch:2026-01-01"),
    ]
    measured = "SELECT session_id, value FROM latest_scores WHERE metric = 'tool_success_rate' ORDER BY ALL"
    assert rows(db, measured) == [("early", 0.0), ("late", 0.5)]
    assert rows(db, "SELECT session_id, count(*) FROM verdicts GROUP BY ALL ORDER BY ALL") == [
        ("early", 2),
        ("late", 2),
    ]
