"""Calls that were only requested, counted as made, by the verdict on a session."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import Spangrade
from grading import NO_GATES, grade_recorded
from otlp_sessions import Call, Said, recorded_sessions

from spangrade import Gates, InputError
from spangrade.evaluator.grading.verdict import exit_code

PLANNED = Call("find", {"q": "a"}, only_requested=True)
BOOKED = Call("book", {"id": 1}, only_requested=True)
COUNT = Gates(requested_calls="count")


def code(*calls: Call, reply: str = "Done.", gates: Gates = NO_GATES, **references: Any) -> int:
    """The exit code of a grade of a session of one turn with these calls."""
    recorded = recorded_sessions([("s1", [Said("Hi", reply, calls)])])
    return exit_code([grade_recorded(recorded, {"user_inputs": ["Hi"], **references}, gates).verdict])


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
def test_a_requested_call_counts_as_made_where_the_question_or_an_option_says_so(
    calls: tuple[Call, ...], expected: list[Any], codes: tuple[int, int]
) -> None:
    references = {"reference_tool_interactions": expected}
    assert code(*calls, **references) == codes[0]
    assert code(*calls, **references, gates=COUNT) == codes[1]
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
def test_every_gate_of_calls_counts_it(references: dict[str, Any], codes: tuple[int, int]) -> None:
    calls = Call("look"), PLANNED
    assert (code(*calls, **references), code(*calls, **references, gates=COUNT)) == codes


def test_it_stands_for_the_reply_of_its_turn() -> None:
    references = {"reference_tool_interactions": [{"name": "find"}]}
    assert [code(PLANNED, reply="", **references, gates=one) for one in (Gates(), COUNT)] == [4, 0]
    assert code(Call("find"), reply="", **references, gates=COUNT) == 1


def test_another_word_is_refused(spangrade: Spangrade) -> None:
    assert spangrade("grade", "golden.json", "--requested-calls", "ignore").code == 2
    with pytest.raises(InputError, match="requested_calls"):
        code(requested_calls="ignore")
