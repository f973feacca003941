from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from paths import CAPTURED

from spangrade import InputError
from spangrade.converters.datasets.formats import find_dataset
from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion, golden_of, load_golden

EXAMPLE = "expected, for example:"
QUESTION = {"id": "q1", "user_inputs": ["hi"], "agents_evaluated": ["shop"], "reference_data": {}}


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "shop_golden.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def refusal(tmp_path: Path, content: Any) -> str:
    path = written(tmp_path, content)
    with pytest.raises(InputError) as refused:
        load_golden(path)
    lines = str(refused.value).replace(f"{path}: ", "").splitlines()
    return "\n".join(lines[: lines.index(EXAMPLE)] if EXAMPLE in lines else lines)


def question(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**QUESTION, **changes}.items() if value is not ...}


def test_a_dataset_of_every_standard_part_loads_and_keeps_custom_keys(tmp_path: Path) -> None:
    reference = {
        "reference_tool_interactions": [
            {"tool_name": "get_cart", "input_arguments": {"id": "1"}},
            {"tool_name": "report"},
        ],
        "reference_trajectory": ["shop"],
        "reference_state_variables": {"total": 4.5},
        "reference_response": "Done.",
        "max_cost_usd": 0.01,
        "max_latency_s": 20,
        "tone": "polite",
    }
    content = {
        "golden_questions": [question(metadata={"topic": "cart"}, reference_data=reference, owner="sales")]
    }
    loaded = load_golden(written(tmp_path, content)).model_dump(mode="json", exclude_unset=True)
    assert loaded == content


def test_references_are_found_by_name(tmp_path: Path) -> None:
    dataset = load_golden(
        written(tmp_path, {"golden_questions": [question(reference_data={"tone": "polite"})]})
    )
    names = ("agents_evaluated", "user_inputs", "tone", "reference_trajectory", "unheard_of")
    assert [dataset.golden_questions[0].reference(name) for name in names] == [
        ("shop",),
        ("hi",),
        "polite",
        None,
        None,
    ]


@pytest.mark.skipif(not CAPTURED.is_dir(), reason="no captured sessions beside the repository")
@pytest.mark.parametrize("folder", ["customer_service", "retail"])
def test_captured_datasets_load_as_they_are(folder: str) -> None:
    (path,) = (CAPTURED / folder).glob("*golden.json")
    loaded = load_golden(path).model_dump(mode="json", exclude_unset=True)
    assert loaded == json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ([], "golden_questions: must not be empty"),
        ("5", "the file: expected an object, found a number"),
        ({}, "golden_questions: missing"),
        (
            {"golden_question": []},
            'the file: unknown key "golden_question"; did you mean "golden_questions"?',
        ),
        ({"golden_questions": {}}, "golden_questions: expected a list of objects, found an object"),
        ({"golden_questions": []}, "golden_questions: must not be empty"),
        ({"golden_questions": [7]}, "golden_questions[0]: expected an object, found a number"),
        (
            {"golden_questions": [QUESTION, question(id="q2", user_inputs=5)]},
            'golden_questions[1] (id "q2").user_inputs: expected a list of strings, found a number',
        ),
        (
            {"golden_questions": [question(user_inputs=["hi", None])]},
            'golden_questions[0] (id "q1").user_inputs[1]: expected a string, found null',
        ),
        (
            {"golden_questions": [question(user_inputs=[])]},
            'golden_questions[0] (id "q1").user_inputs: must not be empty',
        ),
        ({"golden_questions": [question(id=4)]}, "golden_questions[0].id: expected a string, found a number"),
        ({"golden_questions": [question(id="")]}, 'golden_questions[0] (id "").id: must not be empty'),
        ({"golden_questions": [question(id=...)]}, "golden_questions[0].id: missing"),
        (
            {"golden_questions": [question(reference_data=..., reference_trajectory="shop")]},
            'golden_questions[0] (id "q1").reference_trajectory: expected a list of strings, found a string',
        ),
        (
            {"golden_questions": [question(metadata=True)]},
            'golden_questions[0] (id "q1").metadata: expected an object, found true',
        ),
        (
            {"golden_questions": [question(user_inputs=..., user_input=["hi"])]},
            'golden_questions[0] (id "q1"): unknown key "user_input"; did you mean "user_inputs"?',
        ),
        (
            {"golden_questions": [question(required_text=["shipped"])]},
            'golden_questions[0] (id "q1"): unknown key "required_text"; did you mean "required_texts"?',
        ),
        (
            {"golden_questions": [question(reference_data={"reference_tool_interaction": []})]},
            (
                'golden_questions[0] (id "q1").reference_data: unknown key "reference_tool_interaction"; '
                'did you mean "reference_tool_interactions"?'
            ),
        ),
        (
            {"golden_questions": [question(reference_data={"referenceTrajectory": []})]},
            (
                'golden_questions[0] (id "q1").reference_data: unknown key "referenceTrajectory"; '
                'did you mean "reference_trajectory"?'
            ),
        ),
        (
            {"golden_questions": [question(goal="a", reference_data={"goal": "b"})]},
            'golden_questions[0] (id "q1"): "goal" is in the question and in reference_data: expected one',
        ),
        (
            {"golden_questions": [question(reference_data={"reference_trajectory": "shop"})]},
            (
                'golden_questions[0] (id "q1").reference_data.reference_trajectory: '
                "expected a list of strings, found a string"
            ),
        ),
        (
            {"golden_questions": [question(reference_data={"reference_tool_interactions": [{"tool": "x"}]})]},
            (
                'golden_questions[0] (id "q1").reference_data.reference_tool_interactions[0]: '
                'unknown key "tool"; did you mean "tool_name"?'
            ),
        ),
        (
            [question(reference_tool_interactions=[{"name": "x", "tool_name": "y"}])],
            (
                '[0] (id "q1").reference_tool_interactions[0]: '
                '"name" and "tool_name" are one field: expected one of them'
            ),
        ),
        (
            {
                "golden_questions": [
                    question(
                        reference_data={"reference_tool_interactions": [{"tool_name": "x", "results": 1}]}
                    )
                ]
            },
            (
                'golden_questions[0] (id "q1").reference_data.reference_tool_interactions[0]: '
                'unknown key "results"; the keys here are tool_name, input_arguments, match, status, '
                "output, unordered"
            ),
        ),
        (
            {
                "golden_questions": [
                    question(
                        reference_data={
                            "reference_tool_interactions": [{"tool_name": "x", "input_arguments": "{}"}]
                        }
                    )
                ]
            },
            (
                'golden_questions[0] (id "q1").reference_data.reference_tool_interactions[0]'
                ".input_arguments: expected an object, found a string"
            ),
        ),
        (
            {"golden_questions": [QUESTION, question(id="q2"), QUESTION]},
            'golden_questions[2].id: "q1" is taken by golden_questions[0]; ids must differ',
        ),
    ],
)
def test_each_mistake_is_reported_in_one_line(tmp_path: Path, content: Any, line: str) -> None:
    assert refusal(tmp_path, content) == line


def test_a_cut_off_file_is_refused_with_its_line_and_column(tmp_path: Path) -> None:
    text = json.dumps({"golden_questions": [QUESTION]}, indent=1)
    assert re.fullmatch(r"not JSON: line 4, column \d+: .+", refusal(tmp_path, text[: text.index("q1")]))


def test_a_file_nested_without_end_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, "[" * 100_000).startswith("not JSON: line 1, column ")


def test_every_problem_is_listed_up_to_a_screenful(tmp_path: Path) -> None:
    assert refusal(tmp_path, {"golden_questions": [7] * 22}).splitlines() == [
        *(f"golden_questions[{index}]: expected an object, found a number" for index in range(20)),
        "and 2 more",
    ]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json: cannot be read: No such file or directory"):
        load_golden(tmp_path / "none.json")


def test_a_folder_holds_one_golden_dataset_and_its_recordings(tmp_path: Path) -> None:
    golden = written(tmp_path, {"golden_questions": [QUESTION]})
    recordings = [tmp_path / "b.jsonl", tmp_path / "traces" / "a.json", tmp_path / "traces" / "c.pb"]
    (tmp_path / "traces").mkdir()
    for file in (*recordings, tmp_path / "README.md", tmp_path / ".hidden.json"):
        file.touch()
    assert find_dataset(tmp_path) == (golden, recordings)


def test_a_folder_without_exactly_one_dataset_and_a_recording_is_refused(tmp_path: Path) -> None:
    def message(folder: Path) -> str:
        with pytest.raises(InputError) as refused:
            find_dataset(folder)
        return str(refused.value).removeprefix(f"{folder}: ")

    none = message(tmp_path)
    (tmp_path / "golden.json").touch()
    alone = message(tmp_path)
    (tmp_path / "other_golden.json").touch()
    assert [none, alone, message(tmp_path), message(tmp_path / "golden.json")] == [
        "no golden dataset; expected one file named golden.json or *_golden.json",
        "no recorded spans beside golden.json; expected .json, .jsonl or .pb files",
        "2 golden datasets (golden.json, other_golden.json); expected one",
        "not a folder; a dataset is a folder with a *_golden.json and recorded spans",
    ]


def test_a_dataset_is_a_value(tmp_path: Path) -> None:
    content = {"golden_questions": [QUESTION]}
    assert load_golden(written(tmp_path, content)) == GoldenDataset.model_validate(content)
    assert golden_of(content, "here") == GoldenDataset.model_validate(content)
    assert golden_of(content["golden_questions"], "here") == GoldenDataset.model_validate(content)
    assert content == {"golden_questions": [QUESTION]}


def test_rules_on_calls_are_dumped_as_they_are_read() -> None:
    rules = {
        "forbidden_tools": {"tools": ["a"], "failed_calls": "ignore"},
        "no_further_calls": ["b"],
        "at_most": {"c": 2},
        "before": [{"first": "d", "then": "e", "same": ["id"]}, {"first": "f", "then": "g"}],
    }
    question = GoldenQuestion.model_validate({"id": "q", "user_inputs": "Hi", **rules})
    assert question.model_dump(mode="json", exclude_unset=True)["reference_data"] == rules
    again = GoldenQuestion.model_validate_json(question.model_dump_json(exclude_unset=True))
    assert again.reference_data == question.reference_data
