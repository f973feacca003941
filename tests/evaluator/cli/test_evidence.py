"""A failed gate leads with the place and the path at every door: the reports, `show` and the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Spangrade
from otlp_sessions import Call, Said, write_sessions

import spangrade as library
from spangrade.evaluator.reports.html.session_page import page_of
from spangrade.evaluator.reports.html.session_source import session_source
from spangrade.tracer.store import Store

EXPECTED = [
    {"tool_name": "find", "input_arguments": {"q": "777"}},
    {"tool_name": "check"},
    {"tool_name": "refund", "input_arguments": {"amount": 5}},
]


@pytest.mark.exhaustive
def test_a_failed_gate_leads_with_its_place_and_path(spangrade: Spangrade, tmp_path: Path) -> None:
    calls = [Call("find", {"q": "777"}), Call("refund", {"amount": 6})]
    spans = write_sessions(tmp_path / "spans.jsonl", [("s1", [Said("Refund 777", calls=calls)])])
    reference = {"reference_tool_interactions": EXPECTED}
    question = {
        "id": "q1",
        "user_inputs": ["Refund 777"],
        "agents_evaluated": ["shop"],
        "reference_data": reference,
    }
    golden = tmp_path / "golden.json"
    golden.write_text(json.dumps({"golden_questions": [question]}))
    db, out = tmp_path / "shop.duckdb", tmp_path / "out"
    assert spangrade("grade", golden, "--spans", spans, "--db", db, "--out", out).code == 1

    find, refund = (call.span_id for call in library.open(db).session("s1").tool_interactions)
    outcome = json.loads((out / "sessions.jsonl").read_text())["metrics"]["tool_usage_accuracy"]
    assert outcome["evidence"] == [{"after": find, "before": refund}, refund]
    assert outcome["paths"] == ["check", "refund(amount)"]

    where = f"check due after span {find}, before span {refund}; refund(amount) at span {refund}"
    assert f'message="failed: {where}: ' in (out / "junit.xml").read_text()
    assert f'failed">{where}\n' in (out / "junit.xml").read_text()
    shown = " ".join(" ".join(spangrade("show", "s1", "--db", db).out).split())
    assert f"where {where}" in shown
    with Store.open(db, read_only=True) as store:
        page = page_of(session_source(store, "s1"))
    on_the_page = next(one.where for one in page.outcomes if one.metric == "tool_usage_accuracy")
    assert on_the_page == "check due after find in turn 1, before refund in turn 1"

    (score,) = (
        one
        for one in json.loads("\n".join(spangrade("show", "s1", "--db", db, "--format", "json").out))[
            "grade"
        ]["scores"]
        if one["metric"] == "tool_usage_accuracy"
    )
    assert (score["evidence"], score["paths"]) == (outcome["evidence"], outcome["paths"])
