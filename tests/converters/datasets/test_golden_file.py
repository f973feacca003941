"""Edits of golden files of each form, which stay in it."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spangrade import InputError
from spangrade.converters.datasets.golden_edits import Edit
from spangrade.converters.datasets.golden_file import GoldenFile, golden_file

CALLS = "reference_tool_interactions"
PAY = [{"tool_name": "pay", "input_arguments": {"sum": 4.5}}]
EDITS = {
    "a1": [Edit(("reference_data", CALLS), PAY), Edit(("reference_data", "max_cost_usd"), 0.02)],
    "a2": [Edit(("reference_data", CALLS, 0, "input_arguments", "id"), "A: 2")],
}


def read(path: Path, text: str) -> GoldenFile:
    path.write_bytes(text.encode())
    found = golden_file(path)
    assert found is not None
    return found


def test_yaml_keeps_its_layout_and_its_comments(tmp_path: Path) -> None:
    text = """\
# orders
- id: a1   # the first
  required_texts:
    - shipped  # as the page says

  user_inputs: Where is order A1?  # asked often

- user_inputs: [Hi, Cancel A2]
  reference_tool_interactions:
    - {name: cancel, arguments: {id: A1}}
  id: a2
"""
    assert (
        read(tmp_path / "golden.yaml", text).with_edits(EDITS)
        == """\
# orders
- id: a1   # the first
  required_texts:
    - shipped  # as the page says

  user_inputs: Where is order A1?  # asked often
  reference_tool_interactions: [{"tool_name": "pay", "input_arguments": {"sum": 4.5}}]
  max_cost_usd: 0.02

- user_inputs: [Hi, Cancel A2]
  reference_tool_interactions:
    [{"name": "cancel", "arguments": {"id": "A: 2"}}]
  id: a2
"""
    )


@pytest.mark.parametrize(
    "text",
    [
        "golden_questions: [{id: a1, user_inputs: x, required_texts: [a]}]",
        "golden_questions:\n  - id: a1\n    user_inputs: x\n    required_texts: [a]",
        "id: a1\nuser_inputs: |\n  x\n\n  y\nreference_data:\n  required_texts: [a]\n",
        "- id: a1\r\n  user_inputs: x\r\n  required_texts: [a]\r\n",
        "- id: a1\n  user_inputs: x\n  required_texts: [a]\n  reference_tool_interactions:\n",
    ],
)
def test_yaml_of_any_layout_means_the_edited_questions(tmp_path: Path, text: str) -> None:
    path = tmp_path / "golden.yaml"
    before = read(path, text).questions
    (after,) = read(path, read(path, text).with_edits({"a1": EDITS["a1"]})).questions
    references = {CALLS: PAY, "max_cost_usd": 0.02}
    if "reference_data" in before[0]:
        references = {"reference_data": before[0]["reference_data"] | references}
    assert after == before[0] | references


def test_yaml_whose_value_stands_for_two_questions_is_left_unchanged(tmp_path: Path) -> None:
    text = (
        "- {id: a1, user_inputs: x, reference_tool_interactions: &calls [{name: cancel}]}\n"
        "- {id: a2, user_inputs: y, reference_tool_interactions: *calls}\n"
    )
    with pytest.raises(InputError, match=r"golden.yaml: its layout cannot be edited; write it in the usual"):
        read(tmp_path / "golden.yaml", text).with_edits(EDITS)


def test_a_line_of_json_lines_keeps_its_layout(tmp_path: Path) -> None:
    one = '{"id":"a1", "user_inputs":"x",  "required_texts":["a"]}'
    text = (
        f'{one}\n\n{{"id": "a2", "user_inputs": "y", "{CALLS}": [{{"name": "cancel", "arguments": {{}}}}]}}\n'
    )
    assert read(tmp_path / "golden.jsonl", text).with_edits({"a2": EDITS["a2"]}) == text.replace(
        '"arguments": {}', '"arguments": {"id": "A: 2"}'
    )


def test_a_csv_gets_new_cells_and_columns(tmp_path: Path) -> None:
    text = f'id;user_inputs;{CALLS}\na1;"x; y";\na2;"[""Hi"", ""you""]";"[{{""name"": ""cancel""}}]"\n'
    changed = read(tmp_path / "golden.csv", text).with_edits(EDITS)
    assert changed == (
        f"id;user_inputs;{CALLS};max_cost_usd\n"
        'a1;"x; y";"[{""tool_name"": ""pay"", ""input_arguments"": {""sum"": 4.5}}]";0.02\n'
        'a2;"[""Hi"", ""you""]";"[{""name"": ""cancel"", ""input_arguments"": {""id"": ""A: 2""}}]";\n'
    )


def test_a_single_question_is_edited_too(tmp_path: Path) -> None:
    text = '{\n  "id": "a1",\n  "user_inputs": "x"\n}\n'
    changed = read(tmp_path / "golden.json", text).with_edits({"a1": [Edit(("required_texts",), ["a"])]})
    assert changed == '{\n  "id": "a1",\n  "user_inputs": "x",\n  "required_texts": ["a"]\n}\n'


def test_a_file_of_another_tool_is_not_a_golden_file(tmp_path: Path) -> None:
    (tmp_path / "evals.json").write_text('{"eval_set_id": "e", "eval_cases": []}')
    assert golden_file(tmp_path / "evals.json") is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("ab:# -", max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(VALUES, st.sampled_from(["json", "jsonl", "yaml", "csv"]))
def test_any_value_is_written_as_it_is_or_the_file_is_left_unchanged(value: object, form: str) -> None:
    """What is written is what is read; a text that a form cannot have is refused."""
    texts = {
        "json": '[{"id": "a1", "user_inputs": "x"}]',
        "jsonl": '{"id": "a1", "user_inputs": "x"}\n{"id": "a2", "user_inputs": "y"}',
        "yaml": "- id: a1\n  user_inputs: x",
        "csv": "id,user_inputs\na1,x",
    }
    path = Path(f"golden.{form}")
    found = golden_file(path, texts[form])
    assert found is not None
    edit = Edit(("reference_data", "reference_state_variables"), {"v": value})
    changed = None
    with suppress(InputError) if form in ("yaml", "csv") else nullcontext():
        changed = found.with_edits({"a1": [edit]})
    if changed is None:
        return
    again = golden_file(path, changed)
    assert again is not None
    data = again.questions[0].get("reference_data", again.questions[0])
    assert json.dumps(data["reference_state_variables"]) == json.dumps({"v": value})
