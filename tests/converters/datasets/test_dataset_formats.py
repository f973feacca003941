"""One grader for every format of dataset, and the JSON Schema of the golden one."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from paths import CAPTURED, HISTORY, ROOT, SAMPLE

from spangrade import InputError
from spangrade.converters.datasets.formats import read_dataset

EVALSET = HISTORY / "cs_evalset.evalset.json"
SIMULATION = CAPTURED / "simulation"
captured = pytest.mark.skipif(not SIMULATION.is_dir(), reason="the captured files are not in this checkout")


def converted(spangrade: Spangrade, folder: Path, *options: str | Path) -> Path:
    out = folder / "run.csv"
    spangrade(
        "convert_adk_history_to_dataset.py", "--agent-dir", HISTORY / "2.13.0", "--output", out, *options
    )
    return out


def golden(spangrade: Spangrade, folder: Path) -> Path:
    out = folder / "golden.json"
    spangrade("convert", EVALSET, "-o", out, "--agent-name", "customer_service_agent")
    dataset = json.loads(out.read_text(encoding="utf-8"))
    for question in dataset["golden_questions"]:
        for call in question["reference_data"]["reference_tool_interactions"]:
            if call.get("input_arguments", {}).get("value") == 50.0:
                call["status"] = "error"  # the shop refuses it; an eval set cannot say so
    out.write_text(json.dumps(dataset), encoding="utf-8")
    return out


def grades(folder: Path) -> dict[str, Any]:
    """The grades of a run by question, without the ids of spans."""
    lines = (folder / "sessions.jsonl").read_text(encoding="utf-8").splitlines()
    return {grade["question_id"]: grade for grade in map(json.loads, lines)}


def rows_of(path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(2**31 - 1)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", ["1.14.1", "1.39.1", "2.13.0"])
def test_a_csv_and_the_same_sessions_from_spans_get_the_same_grades(
    spangrade: Spangrade, tmp_path: Path, version: str
) -> None:
    db, out, reference = tmp_path / "spans.duckdb", tmp_path / "run.csv", golden(spangrade, tmp_path)
    command = ("convert_adk_history_to_dataset.py", "--agent-dir", HISTORY / version, "--golden", reference)
    assert spangrade(*command, "--db", db, "--output", out).code == 0
    from_csv = spangrade("grade", out, "--db", tmp_path / "csv.duckdb", "--out", tmp_path / "csv")
    from_spans = spangrade("grade", reference, "--db", db, "--out", tmp_path / "spans")
    # The last line names the database.
    assert (from_csv.code, from_csv.out[:-1], from_csv.err) == (1, from_spans.out[:-1], from_spans.err)
    assert from_spans.code == 1
    assert (from_csv.code, from_csv.out[0]) == (1, "2 sessions: 1 passed, 1 failed")
    assert grades(tmp_path / "csv") == grades(tmp_path / "spans")
    scores = grades(tmp_path / "csv")["discount_then_return"]["metrics"]
    gates = ("turns_answered", "trajectory_accuracy", "tool_usage_accuracy", "agent_routing")
    assert [scores[name]["value"] for name in (*gates, "state_management_fidelity")] == [1, 1, 1, 1, 1]
    assert scores["latency_metrics"]["outcome"] == ("score" if version == "2.13.0" else "inconclusive")


@captured
@pytest.mark.parametrize("name", ["run_20260112_014831.csv", "processed_interaction_sim.jsonl"])
@pytest.mark.short_form("name", 2)
def test_the_captured_simulations_are_graded_as_they_are(
    spangrade: Spangrade, tmp_path: Path, name: str
) -> None:
    done = spangrade("grade", SIMULATION / name, "--db", tmp_path / "s.duckdb")
    # Neither file has references.
    assert (done.code, done.out[0]) == (4, "5 sessions: 5 inconclusive")
    (note,) = done.err
    assert note.endswith(
        "session_trace: not read: its spans have parents in other traces; "
        "the session is read from its own events (and 4 more)"
    )


@captured
def test_a_torn_trace_is_read_from_the_sessions_own_events(spangrade: Spangrade, tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    spangrade("grade", SIMULATION / "processed_interaction_sim.jsonl", "--db", db)
    question = (
        "SELECT tool_name, input_arguments, output, turn, latency_s FROM tool_interactions "
        "JOIN sessions USING (session_id) WHERE question_id = 'b961b0eb' ORDER BY position"
    )
    shown = spangrade("sql", question, "--db", db, "--format", "json").out
    asked = {"value": 15, "discount_type": "percentage", "reason": "Competitor coupon match"}
    refused = {"status": "rejected", "message": "discount too large. Must be 10 or less."}
    calls = json.loads("\n".join(shown))
    assert [
        (c["tool_name"], json.loads(c["input_arguments"]), json.loads(c["output"]), c["turn"], c["latency_s"])
        for c in calls
    ] == [
        ("approve_discount", asked, refused, 1, None),
        ("sync_ask_for_approval", asked, {"status": "approved"}, 2, None),
    ]


def test_a_torn_trace_without_events_is_left_out(spangrade: Spangrade, tmp_path: Path) -> None:
    rows = rows_of(converted(spangrade, tmp_path))
    trace = json.loads(rows[0]["session_trace"])
    for number, span in enumerate(trace, 1):
        span["trace_id"] = str(number)
    rows[0]["session_trace"] = json.dumps(trace)
    file = written(tmp_path / "torn.csv", rows)
    done = spangrade("grade", file, "--db", tmp_path / "s.duckdb")
    said = "its spans have parents in other traces, and the row has no session_state to read instead"
    at = f'{file}: row 1 (id "discount_then_return"): session_trace'
    assert (done.code, done.err) == (2, [f"spangrade: {at}: {said}"])
    assert done.out[0] == "1 session: 1 inconclusive; 1 golden question unanswered"


def test_a_sound_trace_is_completed_with_what_the_row_knows(spangrade: Spangrade, tmp_path: Path) -> None:
    rows = rows_of(converted(spangrade, tmp_path))
    trace = json.loads(rows[1]["session_trace"])
    for span in trace:
        for key in ("gen_ai.conversation.id", "spangrade.question_id", "spangrade.state"):
            span["attributes"].pop(key, None)
    rows[1]["session_trace"] = json.dumps(trace)
    extracted = json.loads(rows[1]["extracted_data"]) | {
        "state_variables": {"a": 1, "__llm_request_key__": "x"}
    }
    rows[1]["extracted_data"] = json.dumps(extracted)
    spangrade("grade", written(tmp_path / "bare.csv", rows[1:]), "--db", tmp_path / "s.duckdb")
    shown = spangrade("sessions", "--db", tmp_path / "s.duckdb", "--format", "json").out
    (session,) = json.loads("\n".join(shown))
    assert (session["session_id"], session["question_id"]) == (
        rows[1]["session_id"],
        "cart_only_wrong_expectation",
    )
    state = spangrade(
        "sql", "SELECT name, value FROM state_variables", "--db", tmp_path / "s.duckdb", "--format", "json"
    )
    assert json.loads("\n".join(state.out)) == [{"name": "a", "value": "1"}]


def test_what_cannot_be_used_is_named_and_the_rest_graded(spangrade: Spangrade, tmp_path: Path) -> None:
    whole = rows_of(converted(spangrade, tmp_path))
    file = written(
        tmp_path / "bad.csv",
        [
            whole[0],
            whole[1] | {"user_inputs": '["hi"'},
            whole[1] | {"extracted_data": "[]"},
            whole[1] | {"question_id": "", "user_inputs": "[1]"},
            whole[1] | {"question_id": "discount_then_return"},
            whole[1] | {"question_id": "q6", "reference_data": '{"reference_trajectory": "shop"}'},
            whole[1] | {"question_id": "q7", "session_trace": "[]"},
            whole[1] | {"question_id": "q8", "session_trace": '[{"span": 1}]'},
        ],
    )
    done = spangrade("grade", file, "--db", tmp_path / "s.duckdb")
    at = [f"spangrade: {file}: row {number}" for number in range(9)]
    cart, first = '(id "cart_only_wrong_expectation")', '(id "discount_then_return")'
    assert done.err == [
        f"{at[2]} {cart}: user_inputs: not JSON: line 1, column 6: unexpected end of data",
        f"{at[3]} {cart}: extracted_data: expected an object as JSON, found []",
        f"{at[4]}: user_inputs[0]: expected a string, found a number",
        f'{at[5]} {first}: id: "discount_then_return" is also the id of another question',
        f'{at[6]} (id "q6"): reference_data.reference_trajectory: expected a list of strings, found a string',
        f'{at[7]} (id "q7"): session_trace: missing or empty',
        f'{at[8]} (id "q8"): session_trace: not spans in the form of ADK\'s debug API',
        f"spangrade: {file}: 1 row without a question_id: the number of the row is the id, as in row-1",
    ]
    assert (done.code, done.out[0]) == (
        2,
        "2 sessions: 1 inconclusive, 1 unmatched; 2 golden questions unanswered",
    )


def test_lines_that_are_not_interactions_are_named(spangrade: Spangrade, tmp_path: Path) -> None:
    rows = [
        {
            key: value if key.endswith(("_id", "_response", "summary")) else json.loads(value)
            for key, value in row.items()
        }
        for row in rows_of(converted(spangrade, tmp_path))
    ]
    file = tmp_path / "sim.jsonl"
    lines = [json.dumps(rows[0]), "", json.dumps(rows[1])[:-9], '{"user_inputs": []}', "7"]
    file.write_text("\n".join(lines), encoding="utf-8")
    done = spangrade("grade", file, "--db", tmp_path / "s.duckdb")
    assert (done.code, done.out[0]) == (2, "1 session: 1 inconclusive")
    assert [re.sub("not JSON: .*", "not JSON", line) for line in done.err] == [
        f"spangrade: {file}:3: not JSON",
        f"spangrade: {file}:4: not a processed interaction: missing session_trace",
        f"spangrade: {file}:5: not a processed interaction: missing session_trace, user_inputs",
    ]


@pytest.mark.exhaustive
def test_integers_of_128_bits_are_read_exactly(spangrade: Spangrade, tmp_path: Path) -> None:
    rows = [
        {
            key: value if key.endswith(("_id", "_response", "summary")) else json.loads(value)
            for key, value in row.items()
        }
        for row in rows_of(converted(spangrade, tmp_path))
    ]
    for row in rows:
        for span in row["session_trace"]:
            for key in ("trace_id", "span_id", "parent_span_id"):
                span[key] = int(span[key]) if span[key] else None
    assert max(span["trace_id"] for row in rows for span in row["session_trace"]) > 2**64
    file = tmp_path / "integers.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    columns = "SELECT tool_name, input_arguments, output, turn FROM tool_interactions ORDER BY ALL"
    found = []
    for name in (file, tmp_path / "run.csv"):
        db = tmp_path / f"{name.name}.duckdb"
        done = spangrade("grade", name, "--db", db)
        assert (done.code, done.err, done.out[0]) == (4, [], "2 sessions: 2 inconclusive")
        found.append(spangrade("sql", columns, "--db", db).out)
    assert found[0] == found[1]
    cells = [{key: json.dumps(value) for key, value in row.items()} for row in rows]
    spans = read_dataset(written(tmp_path / "integers.csv", cells)).spans
    assert spans == read_dataset(tmp_path / "run.csv").spans


def test_ids_in_hexadecimal_are_read_as_they_are(spangrade: Spangrade, tmp_path: Path) -> None:
    rows = rows_of(converted(spangrade, tmp_path))
    for row in rows:
        trace = json.loads(row["session_trace"])
        for span in trace:
            span["trace_id"] = f"{int(span['trace_id']):032x}"
            span["span_id"] = f"{int(span['span_id']):016x}"
            span["parent_span_id"] = span["parent_span_id"] and f"{int(span['parent_span_id']):016x}"
        row["session_trace"] = json.dumps(trace)
    spans = read_dataset(written(tmp_path / "hexadecimal.csv", rows)).spans
    assert spans == read_dataset(tmp_path / "run.csv").spans


def test_no_problem_of_a_record_is_swallowed(spangrade: Spangrade, tmp_path: Path) -> None:
    row = rows_of(converted(spangrade, tmp_path))[0]
    trace = json.loads(row["session_trace"])
    for number, span in enumerate(trace, 1):
        span["trace_id"] = str(number)
    trace[0]["span_id"] = 1.5
    history = next((HISTORY / "2.13.0" / ".adk" / "eval_history").glob("*.json"))
    (result, *_) = json.loads(history.read_bytes())["eval_case_results"]
    session = result.get("session_details") or result["sessionDetails"]
    called = next(
        part
        for event in session["events"]
        for part in event["content"]["parts"]
        if part.get("functionCall") or part.get("function_call")
    )
    (called.get("functionCall") or called["function_call"])["args"] = "not an object"
    row |= {"session_trace": json.dumps(trace), "session_state": json.dumps(session)}
    file = written(tmp_path / "broken.csv", [row])
    done = spangrade("grade", file, "--db", tmp_path / "s.duckdb")
    messages = [line.partition(": session_")[2] for line in done.err]
    assert messages[:2] == [
        f"trace{problem}; the session is read from its own events"
        for problem in (
            " [0]: span_id is not an integer of 64 bits, above zero",
            ": not read: its spans have parents in other traces",
        )
    ]
    assert re.fullmatch(r"state.events\[\d+\]: the args of \w+ are not an object", messages[2])
    assert done.code == 2


SIX = ("user_inputs", "final_response", "sub_agent_trace", "trace_summary", "extracted_data", "session_trace")


def test_the_six_columns_of_the_guide_are_enough_whatever_the_file_is_called(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    rows = [
        {name: row[name] for name in SIX}
        | {
            "session_trace": row["session_trace"]
            .replace("gen_ai.conversation.id", "x")
            .replace("spangrade.question_id", "y")
        }
        for row in rows_of(converted(spangrade, tmp_path))
    ]
    file = written(tmp_path / "six.txt", rows)
    out = tmp_path / "out"
    command = ("grade", file, "--db", tmp_path / "s.duckdb", "--metric", "turns_answered>=1", "--out", out)
    done = spangrade(*command)
    said = f"spangrade: {file}: 2 rows without a question_id: the number of the row is the id, as in row-1"
    assert (done.code, done.err, done.out[0]) == (0, [said], "2 sessions: 2 passed")
    assert {name: len(grade["trajectory"]) for name, grade in grades(out).items()} == {"row-1": 7, "row-2": 2}


def test_golden_questions_are_found_by_their_content(spangrade: Spangrade, tmp_path: Path) -> None:
    whole = golden(spangrade, tmp_path)
    named = tmp_path / "golden.csv"
    named.write_text(whole.read_text(encoding="utf-8"), encoding="utf-8")
    assert read_dataset(named) == read_dataset(whole)


def test_the_metadata_of_questions_are_rows_in_sql(spangrade: Spangrade, tmp_path: Path) -> None:
    file = golden(spangrade, tmp_path)
    dataset = json.loads(file.read_text(encoding="utf-8"))
    dataset["golden_questions"][0]["metadata"] = {"topic": "refund", "priority": 2, "of": ["a"], "no": None}
    file.write_text(json.dumps(dataset), encoding="utf-8")
    db = tmp_path / "s.duckdb"
    spangrade("grade", file, "--spans", SAMPLE / "spans.otlp.jsonl", "--db", db)
    query = (
        "SELECT key, value, verdict FROM question_metadata JOIN verdicts USING (run_id, question_id) "
        "ORDER BY key"
    )
    found = json.loads("\n".join(spangrade("sql", query, "--db", db, "--format", "json").out))
    assert [(row["key"], row["value"], row["verdict"]) for row in found] == [
        ("no", None, "inconclusive"),
        ("of", '["a"]', "inconclusive"),
        ("priority", "2", "inconclusive"),
        ("topic", "refund", "inconclusive"),
    ]


def test_two_rows_of_one_session_are_named(spangrade: Spangrade, tmp_path: Path) -> None:
    rows = rows_of(converted(spangrade, tmp_path))
    file = written(tmp_path / "twice.csv", [rows[0], rows[0] | {"question_id": "q2"}])
    done = spangrade("grade", file, "--db", tmp_path / "s.duckdb")
    first = f'{file}: row 1 (id "discount_then_return")'
    text = f'session "{rows[0]["session_id"]}" is that of {first} too, whose columns it is graded with'
    assert (done.code, done.err) == (2, [f'spangrade: {file}: row 2 (id "q2"): {text}'])


def test_a_cell_beyond_the_header_is_named(spangrade: Spangrade, tmp_path: Path) -> None:
    file = converted(spangrade, tmp_path)
    file.write_text(file.read_text(encoding="utf-8").rstrip("\n") + ",extra\n", encoding="utf-8")
    done = spangrade("grade", file, "--db", tmp_path / "s.duckdb")
    at = f'spangrade: {file}: row 2 (id "cart_only_wrong_expectation")'
    assert (done.code, done.err) == (2, [f"{at}: more cells than the header has columns"])


@pytest.mark.exhaustive
def test_an_eval_set_grades_stored_sessions_and_does_not_take_the_app_for_an_agent(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    db = tmp_path / "s.duckdb"
    converted(spangrade, tmp_path, "--db", db)
    spangrade("grade", EVALSET, "--db", db, "--out", tmp_path)
    found = grades(tmp_path)
    assert {name: grade["verdict"] for name, grade in found.items()} == {
        "discount_then_return": "failed",
        "cart_only_wrong_expectation": "failed",
    }
    assert found["discount_then_return"]["reason"] == (
        "tool_usage_accuracy: approve_discount: expected to succeed (failed)"
    )
    assert "agent_routing" not in found["discount_then_return"]["metrics"]


def test_the_app_in_a_csv_without_references_is_not_judged(spangrade: Spangrade, tmp_path: Path) -> None:
    questions = read_dataset(converted(spangrade, tmp_path)).questions.golden_questions
    assert [(q.agents_evaluated, q.reference("agents_evaluated")) for q in questions] == [
        (("cs_agent",), None)
    ] * 2


def test_recordings_are_refused_beside_a_file_that_brings_its_own(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    file = converted(spangrade, tmp_path)
    done = spangrade("grade", file, "--db", tmp_path / "s.duckdb", "--spans", file)
    said = f"spangrade: --spans: {file} brings its own sessions: expected no others"
    assert done == (2, [], [said])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "a,b\n1,2\n", "row 1.id: missing"),
        ("a.csv", "user_inputs,session_trace\n", "no question that can be graded"),
        ("a.json", '{"eval_cases": []}', "no question that can be graded"),
        ("a.json", "{", "not JSON: line 1, column 2: unexpected end of data"),
        ("a.json", "[]", "golden_questions: must not be empty"),
        ("none.json", None, "cannot be read: No such file or directory"),
        ("none.csv", None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_graded_is_refused(
    tmp_path: Path, name: str, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as refused:
        read_dataset(tmp_path / name)
    assert str(refused.value).splitlines()[0] == f"{tmp_path / name}: {said}"


def test_the_schema_names_every_field_that_the_pages_do(spangrade: Spangrade) -> None:
    schema = json.loads("\n".join(spangrade("lint", "--schema").out))
    pages = (ROOT / "docs" / f"{name}.md" for name in ("golden_questions", "running"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    listed = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    parts = ("GoldenQuestion", "Scenario", "ReferenceData")
    assert listed >= {field for part in parts for field in schema["$defs"][part]["properties"]}


@captured
def test_the_captured_simulation_has_the_tokens_that_its_own_summary_counts(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    summary = json.loads((SIMULATION / "eval_summary.json").read_bytes())
    counted = summary["overall_summary"]["deterministic_metrics"]
    db = tmp_path / "s.duckdb"
    spangrade("grade", SIMULATION / "processed_interaction_sim.jsonl", "--db", db)
    averages = ("llm_calls", "input_tokens", "output_tokens", "cached_input_tokens")
    query = f"SELECT {', '.join(f'avg({name}) AS {name}' for name in averages)} FROM sessions"
    (found,) = json.loads("\n".join(spangrade("sql", query, "--db", db, "--format", "json").out))
    assert found == {
        "llm_calls": counted["token_usage.llm_calls"],
        "input_tokens": counted["token_usage.prompt_tokens"],
        "output_tokens": pytest.approx(
            counted["token_usage.completion_tokens"] + counted["thinking_metrics.total_thinking_tokens"]
        ),
        "cached_input_tokens": counted["token_usage.cached_tokens"],
    }
