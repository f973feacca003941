"""ADK's eval history into a CSV and into spans."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from paths import HISTORY, ROOT

import spangrade as package
from spangrade.converters.datasets.adk_events import spans_of
from spangrade.converters.datasets.adk_history import EvalCase, read_folder, score_attributes
from spangrade.converters.datasets.simulation_csv import COLUMNS, Row, read_csv, spans_in
from spangrade.evaluator.derive import load, update
from spangrade.evaluator.metrics.columns import trace_summary
from spangrade.evaluator.session import Latency, Session
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

CONVERTER = ROOT / "converters" / "convert_adk_history_to_dataset.py"
VERSIONS = ("1.14.1", "1.39.1", "2.13.0")
STATE = {
    "customer_id": "C-1001",
    "cart_subtotal": 129.9,
    "user:tier": "gold",
    "last_reply": "Your cart has 2 items (potting soil, fertilizer), total $129.90.",
}


def cases(version: str) -> list[EvalCase]:
    found = list(read_folder(HISTORY / version))
    assert all(isinstance(case, EvalCase) for case in found)
    return [case for case in found if isinstance(case, EvalCase)]


def case(version: str, eval_id: str) -> EvalCase:
    return next(case for case in cases(version) if case.eval_id == eval_id)


def spans(case: EvalCase) -> list[Span]:
    return list(
        spans_of(
            case.session_id,
            case.turns,
            case.state,
            case.eval_id,
            case.durations,
            case.app_name,
            score_attributes(case.scores),
        )
    )


def session(tmp_path: Path, case: EvalCase) -> Session:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(spans(case))
        update(store)
        (found,) = load(store)
    return found


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def document(version: str = "2.13.0") -> Any:
    (file,) = (HISTORY / version / ".adk" / "eval_history").iterdir()
    return json.loads(file.read_bytes())


def folder_of(tmp_path: Path, *documents: Any) -> Path:
    history = tmp_path / "agent" / ".adk" / "eval_history"
    history.mkdir(parents=True)
    for number, content in enumerate(documents):
        text = content if isinstance(content, str) else json.dumps(content)
        (history / f"{number}.evalset_result.json").write_text(text, encoding="utf-8")
    return tmp_path / "agent"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_history_becomes_a_row_a_session(spangrade: Spangrade, tmp_path: Path, version: str) -> None:
    out = tmp_path / "run.csv"
    done = spangrade("convert_adk_history_to_dataset.py", "--agent-dir", HISTORY / version, "--output", out)
    assert done == (0, [f"2 sessions converted to {out}"], [])
    (row,) = (row for row in rows(out) if row["question_id"] == "cart_only_wrong_expectation")
    assert tuple(row) == COLUMNS
    reply = {
        "agent_name": "customer_service_agent",
        "text_response": "Your cart has 2 items (potting soil, fertilizer), total $129.90.",
    }
    extracted = json.loads(row["extracted_data"])
    assert [tool["tool_name"] for tool in extracted["tool_interactions"]] == ["get_cart"]
    assert extracted["tool_interactions"][0]["input_arguments"] == {"customer_id": "C-1001"}
    assert extracted["tool_interactions"][0]["output_result"]["subtotal"] == 129.9
    assert (extracted["state_variables"], extracted["sub_agent_trace"]) == (STATE, [reply])
    assert {
        "user_inputs": json.loads(row["user_inputs"]),
        "agents_evaluated": json.loads(row["agents_evaluated"]),
        "final_response": row["final_response"],
        "sub_agent_trace": json.loads(row["sub_agent_trace"]),
        "trace_summary": row["trace_summary"],
        "reference_data": json.loads(row["reference_data"]),
    } == {
        "user_inputs": ["Hi, I'm customer C-1001. What is in my cart?"],
        "agents_evaluated": ["cs_agent"],
        "final_response": reply["text_response"],
        "sub_agent_trace": [reply],
        "trace_summary": "User: Hi, I'm customer C-1001. What is in my cart?\n"
        "[agent] customer_service_agent\n"
        '[tool] get_cart {"customer_id":"C-1001"}\n'
        f"customer_service_agent: {reply['text_response']}",
        "reference_data": {},
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.short_form("version", 2)
def test_a_judge_is_shown_the_same_steps_of_a_row_and_of_its_session(
    spangrade: Spangrade, tmp_path: Path, version: str
) -> None:
    out, db = tmp_path / "run.csv", tmp_path / "s.duckdb"
    options = ("--agent-dir", HISTORY / version, "--output", out, "--db", db)
    assert spangrade("convert_adk_history_to_dataset.py", *options).code == 0
    stored = {one.session_id: trace_summary(one) for one in package.open(db).sessions()}
    assert {row["session_id"]: row["trace_summary"] for row in rows(out)} == stored
    (longest,) = (text for text in stored.values() if "transfer_to_agent" in text)
    assert [line for line in longest.splitlines() if line.startswith("[")] == [
        "[agent] customer_service_agent",
        '[tool] get_cart {"customer_id":"C-1001"}',
        '[tool] approve_discount {"reason":"price match","type":"percentage","value":50}',
        '[tool] approve_discount {"reason":"price match","type":"percentage","value":10}',
        '[tool] get_cart {"customer_id":"C-1001"}',
        '[tool] transfer_to_agent {"agent_name":"returns_agent"}',
        "[agent] returns_agent",
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("door", ["database", "csv"])
@pytest.mark.short_form("door", 6)
def test_the_scores_of_adks_own_metrics_are_outside_scores(
    spangrade: Spangrade, tmp_path: Path, version: str, door: str
) -> None:
    out, db = tmp_path / "run.csv", tmp_path / "s.duckdb"
    options = ("--agent-dir", HISTORY / version, "--output", out)
    spangrade("convert_adk_history_to_dataset.py", *options, *(("--db", db) if door == "database" else ()))
    if door == "csv":
        spangrade("grade", out, "--db", db)
    (found,) = (
        one for one in package.open(db).sessions() if one.question_id == "cart_only_wrong_expectation"
    )
    judged = {score.name: score for score in found.recorded_scores if score.label is not None}
    assert {name: (one.value, one.label, one.explanation, one.author) for name, one in judged.items()} == {
        "adk.tool_trajectory_avg_score": (0.0, "failed", "threshold 1", "adk eval"),
        "adk.response_match_score": (1.0, "passed", "threshold 0.8", "adk eval"),
    }
    done = spangrade("grade", "--db", db, "--metric", "adk.tool_trajectory_avg_score>=1")
    assert done.out[0] == "2 sessions: 1 passed, 1 failed"


def test_the_script_does_what_the_command_does(spangrade: Spangrade, tmp_path: Path) -> None:
    spangrade(
        "convert_adk_history_to_dataset.py",
        "--agent-dir",
        HISTORY / "1.14.1",
        "--output",
        tmp_path / "run.csv",
    )
    (tmp_path / "here").mkdir()
    script = subprocess.run(
        [sys.executable, CONVERTER, "--agent-dir", HISTORY / "1.14.1"],
        cwd=tmp_path / "here",
        capture_output=True,
        text=True,
    )
    assert (script.returncode, script.stderr) == (0, "")
    (written,) = (tmp_path / "here").glob("run_????????_??????.csv")
    assert written.read_text(encoding="utf-8") == (tmp_path / "run.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_turn_is_one_trace_and_a_call_with_its_response_one_span(version: str) -> None:
    found = spans(case(version, "discount_then_return"))
    by_trace: dict[str, list[str]] = {}
    for span in found:
        by_trace.setdefault(span.trace_id, []).append(span.name.removesuffix("-lite").split(" scripted")[0])
    assert list(by_trace.values()) == [
        ["turn", "invoke_agent customer_service_agent", "chat", "execute_tool get_cart", "chat"],
        [
            *("turn", "invoke_agent customer_service_agent", "chat", "execute_tool approve_discount", "chat"),
            *("execute_tool approve_discount", "execute_tool get_cart", "chat"),
        ],
        [
            *("turn", "invoke_agent customer_service_agent", "chat", "execute_tool transfer_to_agent"),
            *("invoke_agent returns_agent", "chat"),
        ],
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_spans_begin_at_times_of_events(version: str) -> None:
    recorded = {
        round(event["timestamp"] * 1e6) * 1000
        for file in (HISTORY / version / ".adk" / "eval_history").iterdir()
        for result in unwrapped(file)["eval_case_results"]
        for event in result["session_details"]["events"]
    }
    assert {span.start_ns for one in cases(version) for span in spans(one)} <= recorded


def unwrapped(file: Path) -> Any:
    content = json.loads(file.read_bytes())
    return json.loads(content) if isinstance(content, str) else content


@pytest.mark.parametrize(
    ("version", "total_s", "turns"),
    [
        ("1.14.1", None, [None, None, None]),
        ("1.39.1", None, [None, None, None]),
        ("2.13.0", 0.977, [0.787, 0.113, 0.077]),
    ],
)
def test_a_duration_that_the_history_does_not_have_is_unknown(
    tmp_path: Path, version: str, total_s: float | None, turns: list[float | None]
) -> None:
    found = session(tmp_path, case(version, "discount_then_return"))
    assert [turn.latency_s for turn in found.turns] == turns
    assert found.latency == Latency(total_s=total_s)
    assert {call.latency_s for call in found.llm_calls} == {None}
    assert {tool.latency_s for tool in found.tool_interactions} == {None}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_happened_is_derived_from_the_spans(tmp_path: Path, version: str) -> None:
    found = session(tmp_path, case(version, "discount_then_return"))
    assert [step.name for step in found.trajectory] == [
        *("customer_service_agent", "get_cart", "approve_discount", "approve_discount", "get_cart"),
        *("transfer_to_agent", "returns_agent"),
    ]
    assert [(t.tool_name, t.ok) for t in found.tool_interactions] == [
        ("get_cart", True),
        ("approve_discount", False),
        ("approve_discount", True),
        ("get_cart", True),
        ("transfer_to_agent", True),
    ]
    assert [turn.final_response for turn in found.turns] == [
        "Your cart has 2 items (potting soil, fertilizer), total $129.90.",
        "50% was refused, but I could approve 10% off. Your cart is still $129.90 before the discount.",
        "This is the returns agent. I have opened a return for order 777.",
    ]
    assert found.handoffs == (("customer_service_agent", "returns_agent"),)
    assert found.question_id == "discount_then_return"
    assert (found.usage.llm_calls, found.usage.input_tokens, found.usage.output_tokens) == (7, 980, 168)
    assert (found.usage.cached_input_tokens, found.usage.reasoning_tokens) == (280, 56)
    assert found.state_variables is not None
    assert (found.state_variables["discount_approved"], "__llm_request_key__" in found.state_variables) == (
        10,
        False,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_spans_come_back_from_the_csv_as_they_were(
    spangrade: Spangrade, tmp_path: Path, version: str
) -> None:
    out = tmp_path / "run.csv"
    spangrade("convert_adk_history_to_dataset.py", "--agent-dir", HISTORY / version, "--output", out)
    read = [row for row in read_csv(out) if isinstance(row, Row)]
    assert [list(spans_in(row)) for row in read] == [spans(one) for one in cases(version)]


def test_the_same_spans_are_stored_once(spangrade: Spangrade, tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    command = ("convert_adk_history_to_dataset.py", "--agent-dir", HISTORY / "2.13.0", "--db", db)
    first = spangrade(*command, "--output", tmp_path / "run.csv")
    second = spangrade(*command, "--output", tmp_path / "run.csv")
    assert first.out == [f"2 sessions converted to {tmp_path / 'run.csv'}, 24 spans added to {db}"]
    assert second.out == [f"2 sessions converted to {tmp_path / 'run.csv'}, 0 spans added to {db}"]


def test_references_are_merged_by_id_or_by_user_inputs(spangrade: Spangrade, tmp_path: Path) -> None:
    cart = ["Hi, I'm customer C-1001. What is in my cart?"]
    golden = [
        {
            "id": "cart",
            "user_inputs": cart,
            "agents_evaluated": ["a"],
            "reference_data": {"reference_trajectory": ["a"]},
        },
        {
            "id": "discount_then_return",
            "user_inputs": ["other"],
            "agents_evaluated": ["b"],
            "reference_data": {"tone": "kind"},
        },
    ]
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": golden}))
    out = tmp_path / "run.csv"
    command = ("convert_adk_history_to_dataset.py", "--agent-dir", HISTORY / "1.39.1", "--output", out)
    assert spangrade(*command, "--golden", tmp_path / "golden.json").err == []
    merged = {row["question_id"]: (row["agents_evaluated"], row["reference_data"]) for row in rows(out)}
    assert merged == {
        "cart": ('["a"]', '{"reference_trajectory":["a"]}'),
        "discount_then_return": ('["b"]', '{"tone":"kind"}'),
    }


def test_a_session_without_a_golden_question_is_reported(spangrade: Spangrade, tmp_path: Path) -> None:
    golden = {"id": "q", "user_inputs": ["x"], "agents_evaluated": ["a"], "reference_data": {}}
    file = tmp_path / "golden.json"
    file.write_text(json.dumps({"golden_questions": [golden]}))
    command = (
        "convert_adk_history_to_dataset.py",
        "--agent-dir",
        HISTORY / "2.13.0",
        "--output",
        tmp_path / "run.csv",
    )
    done = spangrade(*command, "--golden", file)
    assert done.code == 0
    assert done.err == [
        f"spangrade: {file}: {eval_id}: no question has its id or user inputs"
        for eval_id in ("discount_then_return", "cart_only_wrong_expectation")
    ]


def test_what_cannot_be_used_is_named_and_the_rest_converted(spangrade: Spangrade, tmp_path: Path) -> None:
    whole = document()
    broken = document()
    first, second = broken["eval_case_results"]
    first["session_details"] = None
    del second["eval_id"]
    untimed = document("2.13.0")
    result = untimed["eval_case_results"][1]
    result["session_id"] = "another"
    result["session_details"]["events"][1]["timestamp"] = "noon"
    result["session_details"]["events"][2]["invocation_id"] = None
    untimed["eval_case_results"] = [result, {"eval_id": "e", "session_details": {"id": "s", "events": []}}]
    agent = folder_of(tmp_path, whole, broken, untimed, "{", "[]", whole)
    out = tmp_path / "run.csv"
    done = spangrade("convert_adk_history_to_dataset.py", "--agent-dir", agent, "--output", out)
    history = agent / ".adk" / "eval_history"
    assert done.code == 2
    assert done.out == [f"3 sessions converted to {out}; 9 left out"]
    at = [f"spangrade: {history / f'{number}.evalset_result.json'}: " for number in range(6)]
    events = 'eval_case_results[0] (id "cart_only_wrong_expectation").session_details.events'
    events_of_e = f'{at[2]}eval_case_results[1] (id "e").session_details.events'
    session = f'{at[1]}eval_case_results[0] (id "discount_then_return").session_details'
    assert done.err[:5] == [
        f"{session}: missing; only it records what the agent did",
        f"{at[1]}eval_case_results[1].eval_id: missing; expected a text",
        f"{at[2]}{events}[1].timestamp: not a number of seconds since 1970",
        f"{at[2]}{events}[2].invocation_id: missing",
        f"{events_of_e}: missing; only they record what the agent did",
    ]
    assert done.err[5].startswith(f"spangrade: {history / '3.evalset_result.json'}: not JSON: line 1")
    assert done.err[6] == f"{at[4]}eval_case_results: missing; expected a list"
    assert [line.split("session_id: ")[1] for line in done.err[7:]] == [
        f'"{one.session_id}" is in the history twice' for one in cases("2.13.0")
    ]


def test_a_folder_without_a_history_is_refused(spangrade: Spangrade, tmp_path: Path) -> None:
    done = spangrade(
        "convert_adk_history_to_dataset.py", "--agent-dir", tmp_path, "--output", tmp_path / "run.csv"
    )
    right = "expected the folder of an agent that `adk eval` has run"
    message = f"spangrade: {tmp_path}: no .adk/eval_history/*.evalset_result.json; {right}"
    assert done == (2, [], [message])


def test_a_file_that_is_not_a_simulations_csv_is_left_unchanged(spangrade: Spangrade, tmp_path: Path) -> None:
    out = tmp_path / "sales.csv"
    out.write_text("a,b\n1,2\n")
    done = spangrade("convert_adk_history_to_dataset.py", "--agent-dir", HISTORY / "2.13.0", "--output", out)
    message = f"spangrade: {out}: not a simulation's CSV, so it is left unchanged; name another --output"
    assert (done, out.read_text()) == ((2, [], [message]), "a,b\n1,2\n")


def test_nothing_is_written_where_nothing_can_be_used(spangrade: Spangrade, tmp_path: Path) -> None:
    agent = folder_of(tmp_path, {"eval_case_results": []})
    done = spangrade(
        "convert_adk_history_to_dataset.py", "--agent-dir", agent, "--output", tmp_path / "run.csv"
    )
    assert (done.code, (tmp_path / "run.csv").exists()) == (2, False)


def test_the_files_may_lie_in_the_folder_itself(spangrade: Spangrade, tmp_path: Path) -> None:
    shutil.copytree(HISTORY / "2.13.0" / ".adk" / "eval_history", tmp_path / "saved")
    out = tmp_path / "run.csv"
    done = spangrade("convert_adk_history_to_dataset.py", "--agent-dir", tmp_path / "saved", "--output", out)
    assert done.out == [f"2 sessions converted to {out}"]
