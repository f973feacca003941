"""What is forbidden is found in any form that looks the same; what is expected is compared as written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from otlp_sessions import Call, Said, write_sessions


def graded(
    spangrade: Spangrade,
    folder: Path,
    references: dict[str, Any],
    reply: str = "Done.",
    calls: Sequence[Call] = (),
    *options: str,
) -> int:
    """Return the exit code of a grade of one session by one question."""
    db = folder / "s.duckdb"
    db.unlink(missing_ok=True)
    recording = write_sessions(folder / "s.jsonl", [("s", [Said("Hi", reply, calls)])])
    assert spangrade("import", recording, "--db", db).code == 0
    golden = folder / "golden.json"
    golden.write_text(json.dumps([{"id": "q", "user_inputs": "Hi", **references}]))
    return spangrade("grade", golden, "--db", db, *options).code


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
@pytest.mark.short_form("reply", 5)
def test_a_forbidden_text_is_found_in_any_form(spangrade: Spangrade, tmp_path: Path, reply: str) -> None:
    assert graded(spangrade, tmp_path, {"forbidden_texts": ["caf\u00e9-24"]}, reply) == 1
    assert graded(spangrade, tmp_path, {"forbidden_texts": ["cafe\u0301\u201324"]}, reply) == 1
    assert graded(spangrade, tmp_path, {"forbidden_texts": ["caf\u00e9-25"]}, reply) == 0


def test_an_expected_text_is_not_met_by_another_dash(spangrade: Spangrade, tmp_path: Path) -> None:
    assert graded(spangrade, tmp_path, {"reference_response": "A-1"}, "A-1") == 0
    assert graded(spangrade, tmp_path, {"reference_response": "A-1"}, "A\u20111") == 4


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
@pytest.mark.short_form("name", 11)
def test_a_forbidden_tool_is_found_in_any_form(
    spangrade: Spangrade, tmp_path: Path, name: str, references: dict[str, Any]
) -> None:
    assert graded(spangrade, tmp_path, references, calls=[Call(name)]) == 1


@pytest.mark.parametrize("blank", ["", " ", "\u200b", "\u00ad "])
@pytest.mark.parametrize(
    "references",
    [{"forbidden_texts": ["BLANK"]}, {"forbidden_tools": ["BLANK"]}, {"at_most": {"BLANK": 1}}],
)
@pytest.mark.short_form("references", 8)
def test_a_blank_text_or_tool_is_refused(
    spangrade: Spangrade, tmp_path: Path, blank: str, references: dict[str, Any]
) -> None:
    written = json.loads(json.dumps(references).replace("BLANK", blank))
    assert graded(spangrade, tmp_path, {**written, "max_cost_usd": 1}) == 2


def test_an_expected_null_demands_its_key_under_exact_alone(spangrade: Spangrade, tmp_path: Path) -> None:
    expected = {
        "reference_tool_interactions": [{"name": "pay", "arguments": {"id": 1, "note": None}}],
    }
    exact = ("--metric", "tool_recall:exact>=1")
    for arguments, codes in (
        ({"id": 1}, (0, 1)),
        ({"id": 1, "note": None}, (0, 0)),
        ({"id": 1, "note": "x"}, (0, 0)),
    ):
        calls = [Call("pay", arguments)]
        found = [graded(spangrade, tmp_path, expected, "Done.", calls, *more) for more in ((), exact)]
        assert tuple(found) == codes


def test_lint_lists_nulls_once(spangrade: Spangrade, tmp_path: Path) -> None:
    calls = [
        {"name": "pay", "arguments": {"id": None, "parts": [None, 1]}},
        {"name": "tell", "arguments": {"is": {"$null": True}}, "result": None},
    ]
    graded(spangrade, tmp_path, {"reference_tool_interactions": calls})
    done = spangrade(
        "lint", "--dataset", tmp_path / "golden.json", "--db", tmp_path / "s.duckdb", "--format", "json"
    )
    found = [one for one in json.loads("\n".join(done.out)) if one["code"] == "null_expected"]
    assert [(one["what"], one["count"]) for one in found] == [
        ("3 nulls in expected calls: any value matches, and under subset also none", 3)
    ]
