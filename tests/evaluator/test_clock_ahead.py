"""What was written while the clock was ahead gives way to what is written after it was set right."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from made_once import copy_of_sample, new_store

import spangrade
from spangrade.evaluator.agents.recorded import newest_mark, tags_of
from spangrade.evaluator.derive import update
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

AHEAD = datetime(2226, 1, 1, tzinfo=UTC)
YEAR_NS = 365 * 86_400 * 10**9


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return copy_of_sample(tmp_path / "s.duckdb")


@pytest.mark.exhaustive
def test_the_newest_run_and_verdict_are_those_that_were_saved_last(db: Path) -> None:
    with spangrade.open(db) as opened:
        first = opened.grade(gates=["tool_success_rate>=0"])
    with duckdb.connect(db) as connection:
        connection.execute("UPDATE runs SET graded_at = $ahead", {"ahead": AHEAD.replace(tzinfo=None)})
    with spangrade.open(db) as opened:
        runs = [first, *(opened.grade(gates=[f"token_usage<={limit}"]) for limit in (0, 1))]
        assert [one.run_id for one in opened.runs()] == [one.run_id for one in runs]
        latest = opened.latest_grade("conversation-1")
    assert latest is not None
    assert latest.run_id == runs[-1].run_id


def test_a_label_replaces_the_one_that_the_same_person_gave_before(db: Path) -> None:
    with spangrade.open(db) as opened:
        opened.label("conversation-1", "fail", by="ann", at=AHEAD)
        opened.label("conversation-1", "pass", by="ann")
    with duckdb.connect(db) as connection:
        assert connection.execute("SELECT label FROM scores").fetchall() == [("pass",)]


def test_the_run_to_complete_is_the_one_that_began_last(tmp_path: Path) -> None:
    start_ns = 1_780_000_000 * 10**9
    with new_store(tmp_path / "s.duckdb") as store:
        for number, ahead_ns in enumerate((200 * YEAR_NS, 0), 1):
            attributes = {
                semconv.CONVERSATION_ID: f"s{number}",
                semconv.OPERATION_NAME: "invoke_agent",
                semconv.TAGS: list(tags_of(f"shop@{number:08x}", 1, "", "run")),
            }
            times = (start_ns + ahead_ns, start_ns + ahead_ns + 1)
            trace_id = f"{number:032x}"
            store.add(
                [Span(trace_id, f"{number:016x}", None, "chat", "CLIENT", *times, attributes=attributes)]
            )
            update(store)
        assert newest_mark(store, "shop") == "shop@00000002"
