"""What is forbidden is found in any form that looks the same; what is expected is not met by look-alikes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from grading import NO_GATES, grade_recorded
from made_once import new_database
from otlp_sessions import Call, Said, recorded_sessions, write_golden

from spangrade import Gates, InputError
from spangrade.evaluator.grading.verdict import exit_code


def graded(
    references: dict[str, Any], reply: str = "Done.", calls: Sequence[Call] = (), gates: Gates = NO_GATES
) -> int:
    """Return the exit code of a grade of one session by one question."""
    recorded = recorded_sessions([("s1", [Said("Hi", reply, calls)])])
    return exit_code([grade_recorded(recorded, {"user_inputs": ["Hi"], **references}, gates).verdict])


@pytest.mark.parametrize(
    "reply",
    [
        "Take the Caf\u00e9-24 card.",
        "Take the Caf\u00e9\u201124 card.",
        "Take the Cafe\u0301\u201224 card.",
        "Take the Ca\u00adf\u00e9-\u200b24 card.",
        "Take the \uff23\uff41\uff46\u00c9\u2212\uff12\uff14 card.",
    ],
)
def test_a_forbidden_text_is_found_in_any_form(reply: str) -> None:
    assert graded({"forbidden_texts": ["caf\u00e9-24"]}, reply) == 1
    assert graded({"forbidden_texts": ["cafe\u0301\u201324"]}, reply) == 1
    assert graded({"forbidden_texts": ["caf\u00e9-25"]}, reply) == 0


def test_an_expected_text_is_met_by_another_dash_and_not_by_look_alikes() -> None:
    assert graded({"reference_response": "A-1"}, "A-1") == 0
    assert graded({"reference_response": "A-1"}, "A\u20111") == 0
    assert graded({"reference_response": "A-1"}, "A-\u00b9") == 4
    assert graded({"reference_response": "A-1"}, "\U0001d400-1") == 4


@pytest.mark.parametrize(
    "references",
    [
        {"forbidden_tools": ["delete-account"]},
        {"reference_tool_interactions": [], "no_further_calls": ["delete-account"]},
        {"at_most": {"delete-account": 0}},
        {"before": [["look_up", "delete-account"]]},
    ],
)
@pytest.mark.parametrize("name", ["delete-account", "delete\u2011account", "delete-\u200baccount"])
def test_a_forbidden_tool_is_found_in_any_form(name: str, references: dict[str, Any]) -> None:
    assert graded(references, calls=[Call(name)]) == 1


@pytest.mark.parametrize("blank", ["", " ", "\u200b", "\u00ad "])
@pytest.mark.parametrize(
    "references",
    [{"forbidden_texts": ["BLANK"]}, {"forbidden_tools": ["BLANK"]}, {"at_most": {"BLANK": 1}}],
)
def test_a_blank_text_or_tool_is_refused(blank: str, references: dict[str, Any]) -> None:
    written = json.loads(json.dumps(references).replace("BLANK", blank))
    with pytest.raises(InputError, match=next(iter(references))):
        graded({**written, "max_cost_usd": 1})


def test_an_expected_null_demands_its_key_under_exact_alone() -> None:
    expected = {
        "reference_tool_interactions": [{"name": "pay", "arguments": {"id": 1, "note": None}}],
    }
    exact = Gates(["tools:recall:exact>=1"])
    for arguments, codes in (
        ({"id": 1}, (0, 1)),
        ({"id": 1, "note": None}, (0, 0)),
        ({"id": 1, "note": "x"}, (0, 0)),
    ):
        calls = [Call("pay", arguments)]
        found = [graded(expected, "Done.", calls, gates) for gates in (Gates(), exact)]
        assert tuple(found) == codes


def test_lint_lists_nulls_once(spangrade: Spangrade, tmp_path: Path) -> None:
    calls = [
        {"name": "pay", "arguments": {"id": None, "parts": [None, 1]}},
        {"name": "tell", "arguments": {"is": {"$null": True}}, "result": None},
    ]
    question = {"id": "q", "user_inputs": ["Hi"], "reference_tool_interactions": calls}
    golden = write_golden(tmp_path / "golden.json", question)
    db = new_database(tmp_path / "s.duckdb")
    done = spangrade("lint", "--dataset", golden, "--db", db, "--format", "json")
    found = [one for one in json.loads("\n".join(done.out)) if one["code"] == "null_expected"]
    assert [(one["what"], one["count"]) for one in found] == [
        ("3 nulls in expected calls: any value matches, and under subset also none", 3)
    ]
