"""Edits of golden questions in the text of their file, which keeps its layout and unknown keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade import InputError
from spangrade.converters.datasets.golden_edits import Edit, edited, edited_text

QUESTION = {
    "id": "q1",
    "user_inputs": ['say "}" \\'],
    "owner": {"team": "sales"},
    "reference_data": {
        "reference_tool_interactions": [{"tool_name": "pay", "input_arguments": {"sum": "*"}}]
    },
}
GOLDEN = {"version": 3, "golden_questions": [{"id": "q0", "reference_data": {}}, QUESTION], "note": "ü"}
CALLS = ("reference_data", "reference_tool_interactions")
EDITS = [
    Edit((*CALLS, 0, "input_arguments", "sum"), 4.5),
    Edit((*CALLS, 0, "input_arguments", "to"), {"$null": True}),
    Edit((*CALLS, 0), {"tool_name": "find"}, insert=True),
    Edit((*CALLS, 2), {"tool_name": "mail", "input_arguments": {"text": "x" * 120}}, insert=True),
    Edit(("reference_data", "reference_state_variables", "order"), "Ä-1"),
    Edit(("reference_data", "max_cost_usd"), 0.02),
    Edit(("agents_evaluated",), ["shop"]),
]


def made(golden: dict[str, Any], edits: dict[str, list[Edit]]) -> dict[str, Any]:
    questions = []
    for question in golden["golden_questions"]:
        for edit in edits.get(question["id"], ()):
            question = edited(question, edit)
        questions.append(question)
    return {**golden, "golden_questions": questions}


@pytest.mark.parametrize("indent", [None, 1, 2, 4, "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_edited_text_means_the_edited_questions(indent: int | str | None, newline: str) -> None:
    text = json.dumps(GOLDEN, indent=indent, ensure_ascii=False).replace("\n", newline)
    edits = {"q1": EDITS, "q0": [Edit(("reference_data", "reference_trajectory"), ["shop"])]}
    changed = edited_text(text, edits, "golden.json")
    assert json.loads(changed) == made(GOLDEN, edits)
    assert changed.count("\n") == changed.count("\r\n" if newline in text and newline != "\n" else "\n")
    assert ("\n" in changed) is (indent is not None)


def test_only_the_lines_of_the_edits_change() -> None:
    text = json.dumps(GOLDEN, indent=4)
    changed = edited_text(text, {"q1": [EDITS[0], EDITS[5]]}, "golden.json")
    removed = [line.strip() for line in text.split("\n") if line not in changed.split("\n")]
    added = [line for line in changed.split("\n") if line not in text.split("\n")]
    assert removed == ['"sum": "*"', "]"]
    assert added == [" " * 28 + '"sum": 4.5', " " * 16 + "],", " " * 16 + '"max_cost_usd": 0.02']


def test_a_compact_object_stays_in_its_line() -> None:
    text = '{"golden_questions": [\n  {"id": "q", "reference_data": {"a": {}}}\n]}\n'
    edits = [Edit(("reference_data", "b"), 1), Edit(("reference_data", "a", "c"), [2])]
    expected = '{"golden_questions": [\n  {"id": "q", "reference_data": {"a": {"c": [2]}, "b": 1}}\n]}\n'
    assert edited_text(text, {"q": edits}, "golden.json") == expected


def test_of_two_members_of_a_name_the_last_counts() -> None:
    text = '{"golden_questions": [], "golden_questions": [{"id": "q", "id": "p"}]}'
    changed = edited_text(text, {"p": [Edit(("x",), 1)]}, "golden.json")
    assert json.loads(changed) == {"golden_questions": [{"id": "p", "x": 1}]}


def test_without_edits_the_text_is_the_same() -> None:
    text = json.dumps(GOLDEN, indent=3)
    assert edited_text(text, {}, "golden.json") == text


def test_references_beside_the_id_and_short_names_are_edited_where_they_are() -> None:
    call = {"name": "pay", "arguments": {"sum": "*"}}
    question = {"id": "q1", "user_inputs": "Hi", "reference_tool_interactions": [call]}
    text = json.dumps([question])  # a bare list
    edits = [
        Edit((*CALLS, 0), {"tool_name": "find"}, insert=True),
        Edit((*CALLS, 1, "input_arguments", "sum"), 4.5),
        Edit((*CALLS, 1, "output"), "paid"),
        Edit(("reference_data", "reference_trajectory"), ["shop"]),
    ]
    (changed,) = json.loads(edited_text(text, {"q1": edits}, "golden.json"))
    assert changed == {
        **question,
        "reference_tool_interactions": [
            {"tool_name": "find"},
            {"name": "pay", "arguments": {"sum": 4.5}, "output": "paid"},
        ],
        "reference_data": {"reference_trajectory": ["shop"]},
    }
    for edit in edits:
        question = edited(question, edit)
    assert question == changed


@pytest.mark.parametrize("text", ["5", '{"questions": []}'])
def test_a_file_without_questions_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        edited_text(text, {}, "golden.json")


names = st.text(max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(names, values, max_size=4), names, values, st.sampled_from([None, 2]))
def test_any_member_of_a_question_can_be_set(
    question: dict[str, Any], name: str, value: Any, indent: int | None
) -> None:
    golden = {"golden_questions": [{**question, "id": "q"}]}
    edits = {"q": [Edit((name,), value)]} if name != "id" else {}
    changed = edited_text(json.dumps(golden, indent=indent), edits, "golden.json")
    assert json.loads(changed) == made(golden, edits)
