"""Golden files as people write them: the same questions from JSON, JSON Lines, YAML and CSV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spangrade import InputError
from spangrade.converters.datasets.formats import read_dataset
from spangrade.converters.datasets.golden import load_golden, set_reviewed

QUESTIONS: list[dict[str, Any]] = [
    {"id": "a1", "user_inputs": "Where is order A1?", "forbidden_texts": ["lost"], "max_cost_usd": 0.5},
    {
        "id": "a2",
        "user_inputs": ["Hi", "Cancel no, 007"],
        "reference_tool_interactions": [{"name": "cancel", "arguments": {"day": "2024-01-01"}}],
        "reference_response": "Cancelled.",
        "metadata": {"topic": "no"},
        "tone": "kind",
    },
]
LONG = [
    {
        "id": "a1",
        "user_inputs": ["Where is order A1?"],
        "reference_data": {"forbidden_texts": ["lost"], "max_cost_usd": 0.5},
    },
    {
        "id": "a2",
        "user_inputs": ["Hi", "Cancel no, 007"],
        "metadata": {"topic": "no"},
        "tone": "kind",
        "reference_data": {
            "reference_tool_interactions": [
                {"tool_name": "cancel", "input_arguments": {"day": "2024-01-01"}}
            ],
            "reference_response": "Cancelled.",
        },
    },
]
YAML = """\
# yaml-language-server: $schema=golden.schema.json
- id: a1
  user_inputs: Where is order A1?
  forbidden_texts: [lost]
  max_cost_usd: 0.5
- id: a2
  user_inputs: [Hi, "Cancel no, 007"]
  reference_tool_interactions:
    - {name: cancel, arguments: {day: 2024-01-01}}
  reference_response: Cancelled.
  metadata: {topic: no}
  tone: kind
"""
CSV = """\
\ufeffid, user_inputs,forbidden_texts,max_cost_usd,reference_tool_interactions,reference_response,metadata,tone
a1,Where is order A1?,lost,0.5,,,,
a2,"[""Hi"", ""Cancel no, 007""]",,,"[{""name"": ""cancel"", ""arguments"": {""day"": ""2024-01-01""}}]",Cancelled.,"{""topic"": ""no""}",kind
"""  # noqa: E501
# As Excel writes it where a comma is the decimal sign.
SEMICOLONS = """\
id;user_inputs;forbidden_texts;max_cost_usd;reference_tool_interactions;reference_response;metadata;tone
a1;Where is order A1?;lost;0.5;;;;
a2;"[""Hi"", ""Cancel no, 007""]";;;"[{""name"": ""cancel"", ""arguments"": {""day"": ""2024-01-01""}}]";Cancelled.;"{""topic"": ""no""}";kind
"""  # noqa: E501


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"golden_questions": QUESTIONS}, indent=1),
        json.dumps(QUESTIONS),
        "\n\n".join(map(json.dumps, QUESTIONS)),
        YAML,
        "golden_questions:\n" + YAML.partition("\n")[2],
        CSV,
        CSV.replace("\n", "\r\n"),
        SEMICOLONS,
        json.dumps({"golden_questions": LONG}),
    ],
    ids=[
        "JSON",
        "list",
        "JSON Lines",
        "YAML",
        "YAML object",
        "CSV",
        "CSV of Excel",
        "semicolons",
        "long names",
    ],
)
def test_each_form_is_told_by_its_content_and_gives_the_same_questions(tmp_path: Path, text: str) -> None:
    file = tmp_path / "questions.txt"
    file.write_text(text, encoding="utf-8", newline="")
    dataset = load_golden(file)
    assert dataset.model_dump(mode="json", exclude_unset=True) == {"golden_questions": LONG}
    assert read_dataset(file).questions == dataset


def test_a_question_alone_is_a_file_of_one(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps(QUESTIONS[0]) + "\n")
    (question,) = load_golden(file).golden_questions
    assert (question.id, question.agents_evaluated, question.reference("agents_evaluated")) == (
        "a1",
        (),
        None,
    )


def test_a_custom_reference_is_found_at_either_place(tmp_path: Path) -> None:
    file = tmp_path / "golden.json"
    file.write_text(json.dumps([{**QUESTIONS[0], "rubrics": ["kind"]}]))
    assert load_golden(file).golden_questions[0].reference("rubrics") == ["kind"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            '[{"id": "x", "input": "Hi", "expected": "Hello"}]',
            [
                'FILE: [0] (id "x").user_inputs: missing',
                '"input" is here user_inputs',
                '"expected" is here reference_response',
                "expected, for example:",
                "[",
                '  {"id": "a1", "user_inputs": "Where is order A1?", "required_texts": ["shipped"]}',
                "]",
            ],
        ),
        (
            '[{"input": "Hi", "target": "Hello"}]',
            [
                "FILE: of Inspect; `spangrade convert FILE` makes golden questions of it",
                '"input" is here user_inputs',
                '"target" is here reference_response',
            ],
        ),
        (
            "prompts: [x]\ntests:\n  - vars: {a: 1}\n",
            [
                "FILE: of promptfoo; `spangrade convert FILE` makes golden questions of it",
                "expected, for example:",
                "- id: a1",
                "  user_inputs: Where is order A1?",
                "  required_texts: [shipped]",
            ],
        ),
        (
            '{"id": "a", "user_inputs": "Hi"}\n\n{"id": "b", "user_inputs": 5}\n',
            [
                'FILE: line 3 (id "b").user_inputs: expected a list of strings, found a number',
                "expected, for example:",
            ],
        ),
        (
            '{"id": "a", "user_inputs": "Hi"}\n{"id": "b"\n',
            ["FILE: not JSON: line 2, column 11: unexpected end of data"],
        ),
        (
            "id,user_inputs,max_cost_usd\nx,Hi,0\n",
            [
                'FILE: row 1 (id "x").max_cost_usd: Input should be greater than 0',
            ],
        ),
        (
            "id,user_input\nx,Hi\n",
            [
                'FILE: row 1 (id "x"): unknown key "user_input"; did you mean "user_inputs"?',
            ],
        ),
        (
            "number,text\nx,Hi\n",
            [
                "FILE: row 1.id: missing",
                "expected, for example:",
                "id,user_inputs,required_texts,reference_response",
                "a1,Where is order A1?,shipped,",
                'a2,"[""Hi"", ""Cancel A2""]",cancelled,Order A2 is cancelled.',
            ],
        ),
        (
            "id,user_inputs,max_cost_usd\nx,Hi,much\n",
            ['FILE: row 1: max_cost_usd: expected JSON, found "much"'],
        ),
        ("id,user_inputs\nx,Hi,more\n", ["FILE: row 1: more cells than the header has columns"]),
        ("id,user_inputs,id\nx,Hi,y\n", ['FILE: the column "id" is there twice']),
        (
            '{"golden_questions": [\n {"id": "a", "user_inputs": ["Hi"], "goal": "x",\n  "\\u0069d": "b"}]}',
            ['FILE: line 3, column 3: the key "id" is in one object twice'],
        ),
        (
            '{"id": "a", "user_inputs": "Hi"}\n\n{"id": "b", "goal": "x", "id": "c"}\n',
            ['FILE: line 3, column 26: the key "id" is in one object twice'],
        ),
        (
            'id,user_inputs,metadata\nx,Hi,"{""a"": {""b"": 1, ""b"": 2}}"\n',
            ['FILE: row 1: metadata: line 1, column 16: the key "b" is in one object twice'],
        ),
        (
            'id,user_inputs,reference_response\nx,Hi,"{""b"": 1, ""b"": 2}"\n',
            ['FILE: row 1: reference_response: line 1, column 10: the key "b" is in one object twice'],
        ),
        ("- id: a\n  id: b\n", ['FILE: not YAML: line 2, column 3: the key "id" is in one map twice']),
        (
            "- 1: a\n",
            ["FILE: not YAML: line 1, column 3: a key that is not a text: write it in quotation marks"],
        ),
        ("- !!python/name:os.system x\n", ["FILE: not YAML: line 1, column 3: the tag"]),
        ("- &a [*a]\n", ["FILE: not YAML: line 1, column 7: the alias *a stands for nothing before it"]),
        ("- a\n--- b\n", ["FILE: not YAML: expected one document, found several"]),
        ("- " * 300 + "a", ["FILE: not YAML: line 1, column 401: nested too deeply"]),
        (
            "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(
                f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcde", "bcdef", strict=True)
            ),
            ["FILE: not YAML: line 6, column 4: aliases that make more than 1,000,000 values"],
        ),
        (
            "hello",
            ["FILE: the file: expected an object, found a string", "expected, for example:", "- id: a1"],
        ),
    ],
)
def test_what_is_refused_shows_where_and_the_form_that_was_wanted(
    tmp_path: Path, text: str, lines: list[str]
) -> None:
    file = tmp_path / "golden.txt"
    file.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(InputError) as refused:
        load_golden(file)
    found = str(refused.value).replace(str(file), "FILE").splitlines()[: len(lines)]
    assert [line[: len(wanted)] for line, wanted in zip(found, lines, strict=True)] == lines


def test_yaml_merges_maps_and_reads_numbers_as_json_does(tmp_path: Path) -> None:
    file = tmp_path / "golden.yaml"
    file.write_text(
        "- &first {id: a, user_inputs: Hi, metadata: {a: 1e3, b: '1', c: 007, d: ~, e: yes, f: .5}}\n"
        "- {<<: *first, id: b}\n"
    )
    first, second = load_golden(file).golden_questions
    assert (
        first.metadata
        == second.metadata
        == {"a": 1000, "b": "1", "c": "007", "d": None, "e": "yes", "f": 0.5}
    )
    assert (second.id, second.user_inputs) == ("b", ("Hi",))


@pytest.mark.parametrize(("text", "form"), [(YAML, "YAML"), (CSV, "CSV")])
def test_only_json_is_written(tmp_path: Path, text: str, form: str) -> None:
    file = tmp_path / "golden.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        set_reviewed(file, "a1", "ann", accepted=True)
    assert (
        str(refused.value) == f"{file}: {form}: only a golden file of JSON is written; it is left unchanged"
    )
    assert file.read_text(encoding="utf-8") == text
    as_list = tmp_path / "golden.json"
    as_list.write_text(json.dumps(QUESTIONS))
    set_reviewed(as_list, "a1", "ann", accepted=True)
    assert [one.reviewed for one in load_golden(as_list).golden_questions] == [True, None]
