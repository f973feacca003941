"""A key twice in one object is refused wherever people write JSON or YAML; spans are read as before."""

from __future__ import annotations

import json
from pathlib import Path

import command_line
import pytest
from command_line import Spangrade
from otlp_sessions import Said, write_sessions

from spangrade import InputError
from spangrade.evaluator.turn import load_conversation

GOLDEN = """{"golden_questions": [{"id": "q", "user_inputs": ["Hi"], "reference_data": {
  "forbidden_texts": ["lost"],
  "forbidden_texts": ["gone"]
}}]}"""
TWICE = "is in one object twice"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A database with a reply that has a text, which the first of a golden file's doubled keys forbids."""
    recording = write_sessions(tmp_path / "s.jsonl", [("s", [Said("Hi", "It is lost.")])])
    assert command_line.run("import", recording, "--db", tmp_path / "s.duckdb").code == 0
    return tmp_path / "s.duckdb"


def refused(spangrade: Spangrade, *arguments: str | Path) -> str:
    done = spangrade(*arguments)
    assert (done.code, done.out) == (2, [])
    return done.err[0]


def test_a_golden_file(spangrade: Spangrade, tmp_path: Path, recorded: Path) -> None:
    golden = tmp_path / "golden.json"
    golden.write_text(GOLDEN)
    found = refused(spangrade, "grade", golden, "--db", recorded)
    assert found == f'spangrade: {golden}: line 3, column 3: the key "forbidden_texts" {TWICE}'
    golden.write_text(GOLDEN.replace('  "forbidden_texts": ["gone"]', '  "goal": "ok"'))
    assert spangrade("grade", golden, "--db", recorded).code == 1


def test_a_file_of_metrics(spangrade: Spangrade, tmp_path: Path, recorded: Path) -> None:
    metrics = tmp_path / "metrics.json"
    metrics.write_text('{"metrics": {"tone": {"template": "a"},\n "tone": {"template": "b"}}}')
    found = refused(spangrade, "grade", "--db", recorded, "--metrics-file", metrics, "--metric", "tone>=1")
    assert found == f'spangrade: {metrics}: line 2, column 2: the key "tone" {TWICE}'


@pytest.mark.parametrize("command", [("convert",), ("convert_test_to_golden.py", "--agent", "shop", "-i")])
def test_a_dataset_that_is_converted(spangrade: Spangrade, tmp_path: Path, command: tuple[str, ...]) -> None:
    source = tmp_path / "source.json"
    source.write_text('{"eval_set_id": "e",\n "eval_cases": [], "eval_set_id": "f"}')
    found = refused(spangrade, *command, source, "-o", tmp_path / "out.json")
    assert found == f'spangrade: {source}: line 2, column 20: the key "eval_set_id" {TWICE}'


def test_a_row_of_a_simulation_but_not_the_spans_in_it(spangrade: Spangrade, tmp_path: Path) -> None:
    span = '{"name": "invocation", "name": "invoke_agent shop", "trace_id": 1, "span_id": 2}'
    row = f'{{"question_id": "q", "user_inputs": ["Hi"], "session_trace": [{span}], "reference_data": REF}}'
    file = tmp_path / "rows.jsonl"
    lines = [row.replace("REF", "{}"), row.replace("REF", '{"goal": "a", "goal": "b"}')]
    file.write_text("\n".join(lines))
    done = spangrade("grade", file)
    place = lines[1].index('"goal": "b"') + 1
    assert [line for line in done.err if TWICE in line] == [
        f'spangrade: {file}:2: line 2, column {place}: the key "goal" {TWICE}'
    ]
    file = tmp_path / "rows.csv"
    cell = span.replace('"', '""')
    file.write_text(
        "question_id,user_inputs,session_trace,reference_data\n"
        f'q,"[""Hi""]","[{cell}]","{{""goal"": ""a"", ""goal"": ""b""}}"\n'
        f'r,"[""Hi""]","[{cell}]",\n'
    )
    done = spangrade("grade", file)
    assert [line for line in done.err if TWICE in line] == [
        f'spangrade: {file}: row 1 (id "q"): reference_data: line 1, column 15: the key "goal" {TWICE}'
    ]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (
            "turns.json",
            '[{"role": "user", "text": "Hi"},\n {"role": "agent", "text": "*", "text": "x"}]',
            f'line 2, column 33: the key "text" {TWICE}',
        ),
        (
            "turns.yaml",
            "- {role: user, text: Hi}\n- {role: agent, text: '*', text: x}\n",
            'not YAML: line 2, column 28: the key "text" is in one map twice',
        ),
    ],
)
def test_expected_turns(tmp_path: Path, name: str, text: str, reason: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InputError) as error:
        load_conversation(file)
    assert str(error.value) == f"{file}: {reason}"


def test_settings(spangrade: Spangrade, tmp_path: Path, recorded: Path) -> None:
    file = tmp_path / "spangrade.json"
    file.write_text('{"gates": ["turns>=1"],\n "gates": []}')
    found = refused(spangrade, "grade", "--db", recorded, "--config", file)
    assert found == f'spangrade: {file}: line 2, column 2: the key "gates" {TWICE}'


def test_spans_are_read_as_before(spangrade: Spangrade, tmp_path: Path) -> None:
    recorded = write_sessions(tmp_path / "s.jsonl", [("s", [Said("Hi")])])
    text = recorded.read_text()
    document = json.loads(text)
    doubled = text.replace('"name": "tests"', '"name": "others", "name": "tests"', 1)
    assert doubled != text
    assert json.loads(doubled) == document
    recorded.write_text(doubled)
    assert spangrade("import", recorded, "--db", tmp_path / "s.duckdb").code == 0
