"""A grade of a CSV or JSONL: a metric sees what the file holds, the spans fill the gaps."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import question, session, tool
from command_line import Spangrade
from gemini_standin import GeminiStandIn, gemini_standin
from paths import CAPTURED, HISTORY

from spangrade.converters.datasets.simulation_csv import Row
from spangrade.evaluator.grading.file_columns import with_row, with_rows
from spangrade.evaluator.judge import GeminiJudge, JudgeRun, use_judge
from spangrade.evaluator.metrics import Score
from spangrade.evaluator.metrics.columns import COLUMNS, column
from spangrade.evaluator.metrics.state import state_management_fidelity
from spangrade.evaluator.metrics.tools import tool_usage_accuracy

SIMULATION = CAPTURED / "simulation"
SPANS = session(
    [("hi", [tool("find", {"q": "a"}, call_id="c1", output="x", output_known=True)]), ("more", ())],
    state_variables={"n": 1, "kept": True},
)


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiStandIn]:
    monkeypatch.setenv("GEMINI_API_KEY", "the-key")
    with gemini_standin() as standin:
        standin.answer = lambda request: json.dumps({"reason": "because", "score": 1})
        with use_judge(
            JudgeRun(GeminiJudge("gemini-2.5-flash", http_options=standin.http_options(attempts=1)))
        ):
            yield standin


def rows_of(spangrade: Spangrade, folder: Path) -> list[dict[str, str]]:
    out = folder / "converted.csv"
    spangrade("convert_adk_history_to_dataset.py", "--agent-dir", HISTORY / "2.13.0", "--output", out)
    csv.field_size_limit(2**31 - 1)
    with out.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def definition(path: Path, *sources: str) -> Path:
    mapping = {f"m{number}": {"source_column": source} for number, source in enumerate(sources)}
    metric = {
        "dataset_mapping": mapping,
        "instruction": "Judge.",
        "rating_scores": {"1": "bad", "5": "good"},
    }
    path.write_text(json.dumps({"metrics": {"mine": metric}}))
    return path


def materials(standin: GeminiStandIn) -> list[str]:
    """What the judge was shown, in the order of the definition."""
    (request,) = standin.requests
    fences = r"BEGIN (m\d+) (\w+)\n(.*?)\nEND \1 \2"
    return [text for _, _, text in re.findall(fences, request.prompt, re.DOTALL)]


PLANTED = {
    "final_response": "a planted reply",
    "trace_summary": "a planted summary",
    "sub_agent_trace": [{"name": "planted", "text": "a planted turn"}],
    "extracted_data": {"tool_declarations": [{"name": "planted_tool"}], "mine": "a planted value"},
    "system_instructions": "planted instructions",
    "custom_extract": [{"content_text": "a planted extract"}],
    "latency_data": [{"name": "a planted step"}],
    "colour of its own": "a planted colour",
}
SOURCES = (
    "final_response",
    "trace_summary",
    "sub_agent_trace:0.text",
    "extracted_data:tool_declarations",
    "extracted_data:mine",
    "system_instructions",
    "custom_extract:0.content_text",
    "latency_data",
    "colour of its own",
    "response",
    "user_inputs:0",
)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.short_form("form", 2)
def test_the_judge_sees_every_column_of_the_file(
    spangrade: Spangrade, tmp_path: Path, gemini: GeminiStandIn, form: str
) -> None:
    (row, *_) = rows_of(spangrade, tmp_path)
    extracted = json.loads(row["extracted_data"]) | PLANTED["extracted_data"]
    planted = {**PLANTED, "extracted_data": extracted}
    if form == "csv":
        cells = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in planted.items()
        }
        file = written(tmp_path / "planted.csv", [{**row, **cells}])
    else:
        lists = ("user_inputs", "agents_evaluated", "session_trace", "reference_data")
        values = {**row, **{name: json.loads(row[name]) for name in lists}, **planted}
        file = tmp_path / "planted.jsonl"
        file.write_text(json.dumps(values) + "\n")
    metrics = definition(tmp_path / "mine.json", *SOURCES)
    done = spangrade(
        "grade", file, "--db", tmp_path / "s.duckdb", "--metrics-file", metrics, "--metric", "mine>=1"
    )
    assert (done.code, done.out[0]) == (0, "1 session: 1 passed")
    assert materials(gemini) == [
        "a planted reply",
        "a planted summary",
        "a planted turn",
        '[{"name":"planted_tool"}]',
        "a planted value",
        "planted instructions",
        "a planted extract",
        # A text is shown as it stands in the cell.
        '[{"name": "a planted step"}]' if form == "csv" else '[{"name":"a planted step"}]',
        "a planted colour",
        "a planted reply",
        json.loads(row["user_inputs"])[0],
    ]
    (warning,) = done.err
    assert re.search(
        r'it differs from its spans: final_response: "a planted reply" in the file, ".*… in the spans$',
        warning,
    )


def test_what_our_converter_writes_is_shown(
    spangrade: Spangrade, tmp_path: Path, gemini: GeminiStandIn
) -> None:
    rows = rows_of(spangrade, tmp_path)[:1]
    file = written(tmp_path / "run.csv", rows)
    metrics = definition(
        tmp_path / "mine.json", "extracted_data:tool_declarations", "extracted_data:system_instruction"
    )
    spangrade("grade", file, "--db", tmp_path / "s.duckdb", "--metrics-file", metrics)
    extracted = json.loads(rows[0]["extracted_data"])
    declarations, instruction = materials(gemini)
    assert json.loads(declarations) == extracted["tool_declarations"]
    assert instruction == extracted["system_instruction"]


def test_a_column_that_neither_the_file_nor_the_spans_have_is_refused_in_one_line(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    file = written(tmp_path / "run.csv", [row | {"weather": "mild"} for row in rows_of(spangrade, tmp_path)])
    metrics = definition(tmp_path / "mine.json", "wether")
    refused = spangrade("grade", file, "--db", tmp_path / "s.duckdb", "--metrics-file", metrics)
    problem = 'metrics.mine.dataset_mapping.m0: no column "wether"; did you mean "weather"?'
    assert refused == (2, [], [f"spangrade: {metrics}: {problem}"])


@pytest.mark.skipif(not SIMULATION.is_dir(), reason="the captured files are not in this checkout")
def test_the_metrics_of_the_captured_simulation_have_all_their_materials(
    spangrade: Spangrade, tmp_path: Path, gemini: GeminiStandIn
) -> None:
    file = SIMULATION / "processed_interaction_sim.jsonl"
    done = spangrade(
        *("grade", file, "--db", tmp_path / "s.duckdb"),
        *("--metrics-file", SIMULATION / "metric_definitions.json", "--metric", "tool_use_quality>=1"),
    )
    assert (done.code, done.out[0]) == (0, "5 sessions: 5 passed")
    assert len(gemini.requests) == 25
    (note,) = done.err
    assert note.endswith("; the session is read from its own events (and 4 more)")


def test_the_row_comes_first_and_the_spans_fill_the_gaps() -> None:
    row = {
        "user_inputs": ["hi", "less"],
        "final_response": "done",
        "extracted_data": {
            "state_variables": {"n": 2, "new": "v", "__llm_request_key__": "x"},
            "tool_interactions": [
                {"tool_name": "find", "call_id": "c1", "input_arguments": {"q": "b"}},
                {"tool_name": "pay", "input_arguments": {"sum": 3}, "output_result": {"status": "error"}},
            ],
        },
    }
    known = with_row(SPANS, row)
    assert [turn.user_input for turn in known.turns] == ["hi", "less"]
    assert [turn.final_response for turn in known.turns] == ["ok", "done"]
    assert known.state_variables == {"n": 2, "kept": True, "new": "v"}
    assert [(c.tool_name, c.input_arguments, c.output, c.ok, c.span_id) for c in known.tool_interactions] == [
        ("find", {"q": "b"}, "x", True, "find"),
        ("pay", {"sum": 3}, {"status": "error"}, False, None),
    ]
    assert known.disagreements == (
        'user_inputs[1]: "less" in the file, "more" in the spans',
        'final_response: "done" in the file, "ok" in the spans',
        "state_variables.n: 2 in the file, 1 in the spans",
        'tool_interactions[0] (find).input_arguments: {"q":"b"} in the file, {"q":"a"} in the spans',
        "tool_interactions[1]: pay is not in the spans",
    )
    reference = question(tools=[("find", {"q": "b"})], state={"n": 2})
    assert tool_usage_accuracy(known, reference) == Score(1.0, None, "as expected")
    assert state_management_fidelity(known, reference) == Score(1.0, None, "as expected")
    assert tool_usage_accuracy(SPANS, reference).value == 0


def test_a_reply_in_json_stays_a_text(spangrade: Spangrade, tmp_path: Path) -> None:
    reply = '{ "done": true }'
    reference = json.dumps({"reference_response": reply})
    row = rows_of(spangrade, tmp_path)[0] | {
        "final_response": reply,
        "reference_data": reference,
        "agents_evaluated": '["customer_service_agent"]',
        "question_metadata": '{"topic": "json"}',
    }
    file = written(tmp_path / "run.csv", [row])
    done = spangrade("grade", file, "--db", tmp_path / "s.duckdb", "--where", "metadata.topic = json")
    assert (done.code, done.out[0]) == (0, "1 session: 1 passed")


def test_a_call_that_failed_in_the_spans_or_in_the_row_failed() -> None:
    calls = [
        tool("a", {}, ok=False, output="x", output_known=True),
        tool("b", {}, output=1, output_known=True),
    ]
    row = {
        "tool_interactions": [
            {"tool_name": "a", "output_result": {"fine": True}},
            {"tool_name": "b", "output_result": {"status": "error"}},
        ]
    }
    known = with_row(session([("hi", calls)]), row)
    assert [call.ok for call in known.tool_interactions] == [False, False]


def test_a_row_that_agrees_with_the_spans_is_no_disagreement() -> None:
    wrapped = session([("hi", [tool("f", {"page_size": 1}, output={"result": [1]}, output_known=True)])])
    row = {
        "user_inputs": [" hi "],
        "final_response": "ok ",
        "tool_interactions": [
            {"tool_name": "f", "input_arguments": {"pageSize": 1}, "output_result": [1]},
        ],
    }
    known = with_row(wrapped, row)
    assert known.disagreements == ()
    assert known.tool_interactions == wrapped.tool_interactions


def test_what_a_row_lacks_or_holds_in_another_form_leaves_the_spans_as_they_are() -> None:
    row: dict[str, Any] = {
        "user_inputs": ["hi"],
        "final_response": 7,
        "extracted_data": {"state_variables": [], "tool_interactions": [{"name": "find"}]},
    }
    known = with_row(SPANS, row)
    assert (known.turns, known.state_variables) == (SPANS.turns, SPANS.state_variables)
    assert known.tool_interactions == SPANS.tool_interactions
    assert known.disagreements == (
        "user_inputs: 1 in the file, 2 turns in the spans",
        "tool_interactions[0]: no tool_name, so it is left out",
        "tool_interactions: find of the spans is not in the file",
    )
    empty = with_row(SPANS, {})
    assert all(column(name, empty, question()) == column(name, SPANS, question()) for name in COLUMNS)


@pytest.mark.exhaustive
def test_a_disagreement_stands_in_the_lines_of_the_sessions(spangrade: Spangrade, tmp_path: Path) -> None:
    row = rows_of(spangrade, tmp_path)[0] | {"final_response": "something else"}
    file = written(tmp_path / "run.csv", [row])
    spangrade("grade", file, "--db", tmp_path / "s.duckdb", "--out", tmp_path)
    (line,) = map(json.loads, (tmp_path / "sessions.jsonl").read_text().splitlines())
    (note,) = line["notes"]
    assert note.startswith('final_response: "something else" in the file, ')
    with (tmp_path / "evaluation_results.csv").open(newline="") as results:
        assert [one["final_response"] for one in csv.DictReader(results)] == ["something else"]


def test_the_question_of_a_row_is_the_one_that_its_session_answers(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    rows = rows_of(spangrade, tmp_path)
    file = written(tmp_path / "run.csv", rows)
    spangrade("grade", file, "--db", tmp_path / "s.duckdb")
    # The spans are in the database already, with the questions of the first grade.
    written(file, [row | {"question_id": f"new-{number}"} for number, row in enumerate(rows)])
    done = spangrade("grade", file, "--db", tmp_path / "s.duckdb", "--format", "json")
    assert [one["question_id"] for one in json.loads("\n".join(done.out))["grades"]] == ["new-0", "new-1"]


@pytest.mark.parametrize(("count", "rest"), [(4, ""), (5, ""), (6, "; and 1 more"), (9, "; and 4 more")])
def test_five_disagreements_of_a_row_are_shown(count: int, rest: str) -> None:
    names = [f"v{number}" for number in range(count)]
    spans = session(state_variables=dict.fromkeys(names, 1))
    row = Row("rows.csv:2", {"session_id": "s1", "state_variables": dict.fromkeys(names, 2)})
    problems: list[Any] = []
    list(with_rows([spans], {"s1": row}, problems.append))
    shown = "; ".join(f"state_variables.{name}: 2 in the file, 1 in the spans" for name in names[:5])
    assert [(one.where, one.message) for one in problems] == [
        ("rows.csv:2", f"it differs from its spans: {shown}{rest}")
    ]
