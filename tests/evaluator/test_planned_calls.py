"""Calls that were only requested, counted as made, graded by the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from made_once import new_database
from otlp_sessions import Call, Said, write_golden, write_sessions

PLANNED = Call("find", {"q": "a"}, only_requested=True)
BOOKED = Call("book", {"id": 1}, only_requested=True)
COUNT = ("--requested-calls", "count")


@pytest.fixture
def code(spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Grade a session of one turn with these calls; the exit code."""
    monkeypatch.chdir(tmp_path)

    def grade(*calls: Call, reply: str = "Done.", options: tuple[str, ...] = (), **references: Any) -> int:
        new_database(Path("spangrade.duckdb"))
        write_golden(Path("golden.json"), {"id": "q1", "user_inputs": ["Hi"], **references})
        write_sessions(Path("spans.jsonl"), [("s1", [Said("Hi", reply, calls)])])
        return spangrade("grade", "golden.json", "--spans", "spans.jsonl", *options).code

    return grade


@pytest.mark.parametrize(
    ("calls", "expected", "codes"),
    [
        ((PLANNED,), [{"name": "find", "arguments": {"q": "a"}}], (4, 0)),
        ((PLANNED,), [{"name": "find", "arguments": {"q": "b"}}], (1, 1)),
        ((PLANNED, BOOKED), [{"name": "find"}, {"name": "book"}], (4, 0)),
        ((Call("find"), BOOKED), [{"name": "find"}, {"name": "book"}], (4, 0)),
        ((PLANNED,), [], (4, 1)),
        ((PLANNED,), [{"name": "find", "result": 3}], (4, 4)),  # the result stays unknown
    ],
)
@pytest.mark.short_form("calls", 6)
def test_a_requested_call_counts_as_made_where_the_question_or_an_option_says_so(
    code: Any, calls: tuple[Call, ...], expected: list[Any], codes: tuple[int, int]
) -> None:
    references = {"reference_tool_interactions": expected}
    assert code(*calls, **references) == codes[0]
    assert code(*calls, **references, options=COUNT) == codes[1]
    assert code(*calls, **references, requested_calls="count") == codes[1]


@pytest.mark.parametrize(
    ("references", "codes"),
    [
        ({"forbidden_tools": ["find"]}, (4, 1)),
        ({"at_most": {"find": 0}}, (4, 1)),
        ({"reference_trajectory": ["shop", "look", "find"]}, (4, 0)),
        ({"before": [["book", "find"]]}, (4, 1)),
    ],
)
@pytest.mark.short_form("references", 3)
def test_every_gate_of_calls_counts_it(code: Any, references: dict[str, Any], codes: tuple[int, int]) -> None:
    calls = Call("look"), PLANNED
    assert (code(*calls, **references), code(*calls, **references, options=COUNT)) == codes


def test_it_stands_for_the_reply_of_its_turn(code: Any) -> None:
    references = {"reference_tool_interactions": [{"name": "find"}]}
    assert [code(PLANNED, reply="", **references, options=one) for one in ((), COUNT)] == [4, 0]
    assert code(Call("find"), reply="", **references, options=COUNT) == 1


def test_another_word_is_refused(code: Any) -> None:
    assert code(options=("--requested-calls", "ignore")) == 2
    assert code(requested_calls="ignore") == 2
