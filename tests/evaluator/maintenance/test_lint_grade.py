"""What a grade would find inconclusive, as `lint` reports it before the grade."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Spangrade
from otlp_sessions import Call, Said, write_golden, write_sessions

FIND = {"tool_name": "find", "input_arguments": {"q": "shears"}}
STATE = {"reference_state_variables": {"n": 1}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEMINI_API_KEY", "the-key")  # it is not used
    write_golden(
        Path("golden.json"),
        {"id": "calls", "user_inputs": ["Find"], "reference_tool_interactions": [FIND]},
        {"id": "reply", "user_inputs": ["Hi"], "reference_response": "Hello"},
        {"id": "state", "user_inputs": ["Count"], **STATE},
        {"id": "nothing", "user_inputs": ["Go"]},
        {"id": "low", "user_inputs": ["Which?", "This."], "reference_response": "a"},
        {"id": "high", "user_inputs": ["Which?", "That."], "reference_response": "b"},
        {"id": "never", "user_inputs": ["Never"], **STATE},
    )
    write_sessions(
        Path("spans.jsonl"),
        [
            ("passes", [Said("Find", calls=[Call("find", {"q": "shears"})])]),
            ("fails", [Said("Find")]),
            ("differs", [Said("Hi", "Go away")]),
            ("stateless", [Said("Count")]),
            ("free", [Said("Go")]),
            ("either", [Said("Which?")]),
            ("other", [Said("Something else")]),
        ],
    )


def linted(spangrade: Spangrade, *options: str) -> tuple[int, dict[tuple[str, str | None], tuple[str, str]]]:
    done = spangrade("lint", *options, "--dataset", "golden.json", "--format", "json")
    findings = json.loads("\n".join(done.out))
    codes = {"unanswered", "unmatched", "ambiguous", "needs_judge", "not_compared", "no_reference"}
    return done.code, {
        (one["code"], one["session_id"]): (one["what"], one["advice"])
        for one in findings
        if one["code"] in codes
    }


def test_what_a_grade_would_find_inconclusive_is_named_with_how_to_supply_it(spangrade: Spangrade) -> None:
    assert spangrade("import", "spans.jsonl").code == 0
    code, found = linted(spangrade)
    assert code == 4
    nothing = "golden question nothing: nothing to compare with: the golden question has no reference; "
    nothing += "add reference_data, or request a gate (--metric NAME>=T)"
    assert {key: what for key, (what, _) in found.items() if key[1] is not None} == {
        ("needs_judge", "differs"): "the last reply differs from reference_response: a judge has to rate it",
        ("not_compared", "stateless"): (
            "state_management_fidelity: no state is recorded; "
            "set_state records it, or extracted_data in a CSV or JSONL"
        ),
        ("no_reference", "free"): nothing,
        ("ambiguous", "either"): found["ambiguous", "either"][0],
        ("unmatched", "other"): "no golden question has its user inputs",
    }
    assert "low, high" in found["ambiguous", "either"][0]
    assert found["not_compared", "stateless"][1] == (
        "call spangrade.set_state(), or record a spangrade.state event on any span; "
        "or do not compare it (SPANGRADE_NO_REFERENCE=reference_state_variables)"
    )
    assert "grade --answers SESSION=ID" in found["ambiguous", "either"][1]
    assert "--judge-model" in found["needs_judge", "differs"][1]
    assert spangrade("sql", "SELECT 1 FROM runs", "--format", "json").out == ["[]"]


def test_a_question_without_a_session_is_named(spangrade: Spangrade) -> None:
    assert spangrade("import", "spans.jsonl").code == 0
    done = spangrade("lint", "--dataset", "golden.json", "--format", "json")
    unanswered = [one["what"] for one in json.loads("\n".join(done.out)) if one["code"] == "unanswered"]
    never = "golden question never: no session answers it; import one, or name it with --answers SESSION=ID"
    assert never in unanswered
    assert all(session_id == "stateless" for _, session_id in linted(spangrade, "stateless")[1])


def test_what_lint_lists_is_what_a_grade_finds(spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    graded = spangrade("grade", "golden.json", "--spans", "spans.jsonl", "--format", "json")
    inconclusive = {
        one["session_id"]
        for one in json.loads("\n".join(graded.out))["grades"]
        if one["verdict"] == "inconclusive"
    }
    listed = {session_id for code, session_id in linted(spangrade)[1] if code != "unmatched"}
    assert listed == inconclusive


def test_a_limit_of_the_cost_without_tokens_is_named_with_how_to_record_them(spangrade: Spangrade) -> None:
    write_golden(Path("golden.json"), {"id": "q", "user_inputs": ["Find"], "max_cost_usd": 0.01})
    write_sessions(Path("spans.jsonl"), [("free", [Said("Find", tokens=None)])])
    assert spangrade("import", "spans.jsonl").code == 0
    _, found = linted(spangrade)
    what, advice = found["not_compared", "free"]
    assert what.startswith("max_cost_usd: no price is known for gemini-2.5-flash; it takes the tokens")
    assert advice.endswith("; or do not compare it (SPANGRADE_NO_REFERENCE=max_cost_usd)")
    assert not advice.startswith("record it; ")  # but how, for the stack that recorded it
