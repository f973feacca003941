"""The list of sessions: its filters, orders and pages, compared with plain queries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import builders
import pytest
from many_sessions import two_hundred

from spangrade import InputError
from spangrade.evaluator.derive import update
from spangrade.evaluator.derive.schema import TABLES
from spangrade.evaluator.derive.session_rows import rows_of
from spangrade.evaluator.grading.stored_sessions import list_sessions
from spangrade.evaluator.reports.html.sessions_page import (
    PAGE,
    SUGGESTIONS,
    count_page,
    sessions_page,
    suggestions,
)
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows

TRACE_ID = hashlib.md5(b"trace 7", usedforsecurity=False).hexdigest()
SPAN_ID = hashlib.md5(b"span 7 2", usedforsecurity=False).hexdigest()[:16]
CALL_ID = f"call_{hashlib.md5(str(7 * 4 + 2).encode(), usedforsecurity=False).hexdigest()}"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(two_hundred(), read_only=True) as opened:
        yield opened


LATEST = """
session_id IN (
    SELECT session_id FROM verdicts AS v WHERE verdict = '{}' AND NOT EXISTS (
        SELECT 1 FROM verdicts AS later WHERE later.session_id = v.session_id AND later.run_id > v.run_id))
"""
FILTERS = {
    "nothing": ({}, "true"),
    "agent": ({"agent": "refunds"}, "list_contains(agents, 'refunds')"),
    "a part of an agent's name": ({"agent": "refund"}, "false"),
    "an agent's name with a quote": ({"agent": '","'}, "false"),
    "tool": (
        {"tool": "refund"},
        "session_id IN (SELECT session_id FROM tool_interactions WHERE tool_name = 'refund')",
    ),
    "an unknown tool": ({"tool": "Refund"}, "false"),
    "model": ({"model": "gpt-5"}, "list_contains(models, 'gpt-5')"),
    "prompt": ({"prompt": "greet@3"}, "list_contains(prompts, 'greet@3')"),
    "a prompt without its version": ({"prompt": "greet"}, "false"),
    "version": ({"version": "1.3"}, "agent_version = '1.3'"),
    "since": ({"since": "2026-03-01"}, "started_at >= '2026-03-01'"),
    "until": ({"until": "2026-01-05T12:00Z"}, "started_at < '2026-01-05 12:00'"),
    "cost": ({"min_cost": "0.09", "max_cost": "0.095"}, "cost_usd BETWEEN 0.09 AND 0.095"),
    "latency": ({"min_latency": "10", "max_latency": "20"}, "total_s BETWEEN 10 AND 20"),
    "with errors": ({"errors": "with"}, "errors > 0"),
    "without errors": ({"errors": "without"}, "errors = 0"),
    "the text of an error": (
        {"error": "ORDER session-a"},
        "session_id IN (SELECT session_id FROM errors WHERE message ILIKE '%order session-a%')",
    ),
    "text": (
        {"text": "WAITED for 7 days"},
        "session_id IN (SELECT session_id FROM turns WHERE user_input LIKE '%waited for 7 days%')",
    ),
    "a text with signs of patterns": ({"text": "% days"}, "false"),
    "the text of an argument": (
        {"text": "LATE by 12 days"},
        "session_id IN (SELECT session_id FROM tool_interactions WHERE input_arguments LIKE '% 12 %')",
    ),
    "the text of a result": (
        {"text": '"weight_g":4'},
        "session_id IN (SELECT session_id FROM derived.tool_interactions WHERE output LIKE '%weight_g\":4%')",
    ),
    "a part of an id": ({"text": "SESSION-ab"}, "contains(session_id, 'session-ab')"),
    "the id of a call": (
        {"text": CALL_ID},
        f"session_id IN (SELECT session_id FROM tool_interactions WHERE call_id = '{CALL_ID}')",
    ),
    "the id of a span": (
        {"text": SPAN_ID},
        f"session_id IN (SELECT session_id FROM tool_interactions WHERE span_id = '{SPAN_ID}')",
    ),
    "the id of a trace": ({"text": TRACE_ID}, "session_id = 'session-' || md5('7')"),
    "a text and a verdict": (
        {"text": "refund it", "verdict": "failed"},
        LATEST.format("failed"),
    ),
    "failed": ({"verdict": "failed"}, LATEST.format("failed")),
    "passed": ({"verdict": "passed"}, LATEST.format("passed")),
    "not graded": ({"verdict": "not graded"}, "false"),
    "failed in a run": (
        {"verdict": "failed", "run": "run-1"},
        "session_id IN (SELECT session_id FROM verdicts WHERE run_id = 'run-1' AND verdict = 'failed')",
    ),
    "a run": ({"run": "run-2"}, "session_id IN (SELECT session_id FROM verdicts WHERE run_id = 'run-2')"),
    "a reason": (
        {"run": "run-2", "reason": "no state is recorded"},
        "session_id IN (SELECT session_id FROM verdicts WHERE run_id = 'run-2' AND verdict = 'inconclusive')",
    ),
    "several": (
        {"verdict": "failed", "tool": "refund", "version": "1.1", "errors": "without"},
        (
            f"agent_version = '1.1' AND errors = 0 AND {LATEST.format('failed')} AND "
            "session_id IN (SELECT session_id FROM tool_interactions WHERE tool_name = 'refund')"
        ),
    ),
}


def pages(store: Store, texts: dict[str, str], way: str = "next") -> Iterator[list[str]]:
    while True:
        values = sessions_page(store, texts)
        yield [row["session_id"] for row in values["sessions"]]
        if values[way] is None:
            return
        texts = values[way]


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_leaves_what_a_plain_query_finds(store: Store, name: str) -> None:
    texts, condition = FILTERS[name]
    expected = [
        session_id
        for (session_id,) in store.query(
            f"SELECT session_id FROM sessions WHERE {condition} ORDER BY started_at DESC, session_id"
        )
    ]
    listed = list(pages(store, texts))
    assert [session_id for page in listed for session_id in page] == expected
    assert all(len(page) == PAGE for page in listed[:-1])
    assert count_page(store, texts) == len(expected)


def test_a_page_of_a_search_counts_what_it_finds(store: Store) -> None:
    page = sessions_page(store, {"text": "late by 1"})
    assert page["number"] == count_page(store, {"text": "late by 1"}) > PAGE
    second = sessions_page(store, page["next"])
    assert second["number"] == page["number"]
    assert sessions_page(store, {"tool": "refund"})["number"] is None


def test_sessions_sorted_by_verdict_can_be_searched(store: Store) -> None:
    ids = [one for page in pages(store, {"sort": "verdict", "text": "late by 12 days"}) for one in page]
    in_order = [row["session_id"] for row in list_sessions(store, sort="verdict")]
    assert ids == [one for one in in_order if one in set(ids)]
    assert len(ids) == count_page(store, {"text": "late by 12 days"})


def test_the_order_of_verdicts_is_that_of_the_run_that_is_asked_for(store: Store) -> None:
    listed = [one for page in pages(store, {"sort": "verdict", "run": "run-2"}) for one in page]
    expected = store.query(
        "SELECT session_id FROM verdicts WHERE run_id = 'run-2' "
        "ORDER BY list_position(['failed', 'inconclusive', 'passed'], verdict), session_id"
    )
    assert listed == [session_id for (session_id,) in expected]


def test_what_json_escapes_and_names_with_signs_are_found(tmp_path: Path) -> None:
    with Store.open(tmp_path / "odd.duckdb") as opened:
        update(opened)
        calls = [builders.tool('say,"it"', {"note": 'A "quoted"\nline'}), builders.tool(",", {"n": 1})]
        one = builders.session([("hi", calls)], session_id="one", agents=('","', "b"))
        other = builders.session([("hi", [builders.tool("it", {})])], session_id="other", agents=("a,", "c"))
        for table, rows in rows_of([one, other], 1).items():
            if rows:
                incoming = arrow_rows(rows, TABLES[table].arrow_types)
                opened.query(f"INSERT INTO derived.{table} BY NAME FROM incoming", incoming=incoming)
        for texts, found in (
            ({"text": 'a "QUOTED"'}, ["one"]),
            ({"text": '"note":"A'}, ["one"]),
            ({"tool": 'say,"it"'}, ["one"]),
            ({"tool": ","}, ["one"]),
            ({"tool": "it"}, ["other"]),
            ({"agent": '","'}, ["one"]),
            ({"agent": ","}, []),
            ({"agent": "a,"}, ["other"]),
        ):
            assert [row["session_id"] for row in sessions_page(opened, texts)["sessions"]] == found, texts


@pytest.mark.parametrize("sort", ["start", "newest", "latency", "cost", "tokens", "errors", "verdict"])
def test_pages_go_through_all_sessions_in_order_and_back(store: Store, sort: str) -> None:
    """Four pages, of which the last is full."""
    expected = [row["session_id"] for row in list_sessions(store, sort=sort)]
    assert len(expected) == 4 * PAGE
    forwards = list(pages(store, {"sort": sort}))
    assert [session_id for page in forwards for session_id in page] == expected
    texts: dict[str, str] = {"sort": sort}
    while (following := sessions_page(store, texts)["next"]) is not None:
        texts = following
    assert list(pages(store, texts, "previous"))[::-1] == forwards


def test_a_row_has_its_first_message_and_the_verdict_of_the_run_that_is_asked_for(store: Store) -> None:
    rows = {
        run: {row["session_id"]: row for row in sessions_page(store, {"run": run})["sessions"]}
        for run in ("run-1", "run-2")
    }
    for run, by_id in rows.items():
        stored = dict(
            store.query("SELECT session_id, verdict FROM verdicts WHERE run_id = $run", {"run": run})
        )
        assert {name: row["verdict"] for name, row in by_id.items()} == {name: stored[name] for name in by_id}
        inputs = dict(store.query("SELECT session_id, user_input FROM turns WHERE turn = 1"))
        assert {name: row["first_input"] for name, row in by_id.items()} == {n: inputs[n] for n in by_id}


def test_suggestions_are_the_values_that_occur(store: Store) -> None:
    assert {name: suggestions(store, name) for name in SUGGESTIONS} == {
        "agent": ["billing", "refunds", "router"],
        "model": ["claude-sonnet-4-5", "gemini-2.5-flash", "gpt-5"],
        "tool": ["escalate", "look_up_order", "refund", "search", "send_mail"],
        "version": ["1.0", "1.1", "1.2", "1.3", "1.4"],
    }


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"sort": "size"}, "cannot sort by 'size'"),
        ({"verdict": "green"}, "verdict: 'green'; expected one of passed"),
        ({"errors": "1"}, "errors: '1'; expected one of with, without"),
        ({"min_cost": "much"}, "min_cost: 'much' is not a number"),
        ({"max_latency": "nan"}, "max_latency: 'nan' is not a number"),
        ({"since": "yesterday"}, "'yesterday' is not a time"),
        ({"reason": "no state"}, "reason: expected a run, too"),
        ({"after": "%%%"}, "this address of a page is damaged"),
        ({"before": "WyJhIiwgImIiXQ"}, "this address of a page is damaged"),
        ({"after": "WzEsIDJd"}, "this address of a page is damaged"),
    ],
)
def test_a_value_that_a_filter_cannot_have_is_an_error(
    store: Store, texts: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        sessions_page(store, texts)
