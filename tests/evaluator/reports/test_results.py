"""evaluation_results.csv and eval_summary.json: whole values, and the keys of captured ones."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from builders import llm, question, session, tool, turn
from paths import CAPTURED

from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.grading.run import Grade, Run
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import Inconclusive, Metric, Score
from spangrade.evaluator.reports.facts import SessionFacts, deterministic_metrics
from spangrade.evaluator.reports.files import write_reports
from spangrade.evaluator.reports.json import written
from spangrade.evaluator.session import Latency, Session, Usage

AT = datetime(2026, 11, 21, 12, 30, 15, 0, UTC)
QUESTIONS = GoldenDataset(
    golden_questions=(
        question(id="q1").model_copy(update={"metadata": {"tenant": "shop", "runs": "not ours"}}),
        question(id="q2"),
    )
)
JUDGED = Metric("polite", lambda session: Score(1.0), "How polite.", scale=(0.0, 5.0))


def judged(value: float, reason: str) -> Score:
    return Score(value, None, reason, (), {"judge": "gemini"})


def recorded(session_id: str, tokens: int, reply: str = "=1+1") -> Session:
    call = llm(tokens=(tokens, 16), grounding_chunks=1, code_executions=0, span_id=f"call of {session_id}")
    made = session(
        [("+hi", [tool("find"), tool("find", ok=False)])],
        session_id=session_id,
        llm_calls=(call,),
        usage=Usage(1, tokens, 16, 32, 4, True),
        latency=Latency(2.0, 0.5, 1.0, 0.5, 0.25),
        models=("gpt-4o",),
        handoffs=(("shop", "desk"),),
        cost_usd=0.01,
    )
    return replace(made, turns=(turn(1, "+hi", final_response=reply),))


def graded(folder: Path) -> Run:
    grades = [
        Grade("s1", "q1", Verdict.PASSED, "", {"polite": judged(4.0, "fine"), "recall": Score(1.0, True)}),
        Grade(
            "@s2",
            "q1",
            Verdict.FAILED,
            "-recall: no find",
            {"polite": judged(2.0, "curt"), "recall": Score(-0.5, False, "no find")},
        ),
        Grade("s3", None, Verdict.UNMATCHED, "no golden question", {"cost": Inconclusive("no price")}),
        Grade(
            None,
            "q2",
            Verdict.INCONCLUSIVE,
            "no session answers it; import one, or name it with --answers SESSION=ID",
            {},
        ),
    ]
    run = Run("r1", "golden.json")
    read = [recorded("s1", 100), recorded("not graded", 7), recorded("@s2", 200, "a\x00\nb")]
    with SessionFacts() as facts:
        for _ in facts.noted([*read, recorded("s3", 300)]):
            pass
        for one in written(grades, folder):
            run.add(one)
        write_reports(run, folder, QUESTIONS, facts, AT, [JUDGED])
    return run


def test_the_csv_has_a_row_per_session_and_no_formula(tmp_path: Path) -> None:
    graded(tmp_path)
    with (tmp_path / "evaluation_results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = ("user_id", "system_instructions", "extracted_data", "custom_extract", "session_state")
    payloads = [{name: row.pop(name) for name in (*names, "session_trace")} for row in rows]
    extracted = json.loads(payloads[0].pop("extracted_data"))
    trace_of_spans = json.loads(payloads[0].pop("session_trace"))
    assert set(payloads[0].values()) == {""}
    assert extracted["sub_agent_trace"] == [{"agent_name": "shop", "text_response": "=1+1"}]
    assert [call["tool_name"] for call in extracted["tool_interactions"]] == ["find", "find"]
    spans = ["invoke_agent shop", "chat gpt-4o", "execute_tool find", "execute_tool find"]
    assert [span["name"] for span in trace_of_spans] == spans
    assert set(payloads[-1].values()) == {""}
    same = {
        "agent_name": "shop",
        "timestamp": "1970-01-01T00:00:00",
        "metric.duration_sec": "2.0",
        "metric.turn_count": "1",
        "metric.tool_calls": "2",
        "metric.tool_errors": "1",
        "metric.unique_tools": '["find"]',
        "eval_set_result_id": "r1",
        "user_inputs": '["+hi"]',
    }
    unmeasured = {
        f"{kind}.{name}": "" for name in ("polite", "recall", "cost") for kind in ("score", "passed")
    }
    trace = "User: +hi\nshop: "
    assert rows == [
        {
            "eval_id": "q1",
            "session_id": "s1",
            **same,
            "metric.total_tokens": "116",
            "question_id": "q1",
            "agents_evaluated": '["shop"]',
            "final_response": "'=1+1",
            "sub_agent_trace": '[{"agent_name":"shop","text_response":"=1+1"}]',
            "trace_summary": f"{trace}=1+1",
            "verdict": "passed",
            "reason": "",
            **unmeasured,
            "score.polite": "4.0",
            "score.recall": "1.0",
            "passed.recall": "True",
        },
        {
            "eval_id": "q1",
            "session_id": "'@s2",
            **same,
            "metric.total_tokens": "216",
            "question_id": "q1",
            "agents_evaluated": '["shop"]',
            "final_response": "a�\nb",
            "sub_agent_trace": '[{"agent_name":"shop","text_response":"a\\u0000\\nb"}]',
            "trace_summary": f"{trace}a�\nb",
            "verdict": "failed",
            "reason": "'-recall: no find",
            **unmeasured,
            "score.polite": "2.0",
            "score.recall": "-0.5",
            "passed.recall": "False",
        },
        {
            "eval_id": "",
            "session_id": "s3",
            **same,
            "metric.total_tokens": "316",
            "question_id": "",
            "agents_evaluated": "",
            "final_response": "'=1+1",
            "sub_agent_trace": '[{"agent_name":"shop","text_response":"=1+1"}]',
            "trace_summary": f"{trace}=1+1",
            "verdict": "unmatched",
            "reason": "no golden question",
            **unmeasured,
        },
        {
            "eval_id": "q2",
            "session_id": "",
            **dict.fromkeys(same, ""),
            "eval_set_result_id": "r1",
            "metric.total_tokens": "",
            "question_id": "q2",
            "agents_evaluated": '["shop"]',
            "final_response": "",
            "sub_agent_trace": "",
            "trace_summary": "",
            "verdict": "inconclusive",
            "reason": "no session answers it; import one, or name it with --answers SESSION=ID",
            **unmeasured,
        },
    ]


def test_the_summary_has_means_of_the_run_and_of_each_question(tmp_path: Path) -> None:
    run = graded(tmp_path)
    summary = json.loads((tmp_path / "eval_summary.json").read_text(encoding="utf-8"))
    overall, (first, second) = summary.pop("overall_summary"), summary.pop("per_question_summary")
    assert summary == {
        "experiment_id": "r1",
        "run_type": "spangrade grade",
        "test_description": "golden.json",
        "interaction_datetime": "2026-11-21T12:30:15",
        "exit_code": 1,
    }
    assert overall["llm_based_metrics"] == {
        "polite": {"average": 3.0, "score_range": {"min": 0.0, "max": 5.0, "description": "How polite."}}
    }
    assert overall["verdicts"] == run.to_json()["verdicts"]
    assert overall["metrics"] == run.to_json()["metrics"]
    means = overall["deterministic_metrics"]
    assert (means["token_usage.total_tokens"], means["cache_efficiency.total_cached_tokens"]) == (216.0, 32.0)
    assert first["deterministic_metrics"] == {
        "token_usage": {
            "llm_calls": 1,
            "models_used": ["gpt-4o"],
            "total_tokens": 166,
            "prompt_tokens": 150,
            "completion_tokens": 12,
            "cached_tokens": 32,
            "estimated_cost_usd": 0.01,
        },
        "cache_efficiency": {
            "cache_hit_rate": 0.24,
            "total_cached_tokens": 32,
            "total_fresh_prompt_tokens": 118,
            "total_input_tokens": 150,
        },
        "thinking_metrics": {
            "reasoning_ratio": 0.25,
            "total_thinking_tokens": 4,
            "total_candidate_tokens": 12,
            "total_output_tokens": 16,
            "turns_with_thinking": 1,
        },
        "context_saturation": {"max_total_tokens": 166, "peak_usage_span": None},
        "output_density": {"average_output_tokens": 16, "total_output_tokens": 16, "llm_calls_count": 1},
        "latency_metrics": {
            "total_latency_seconds": 2,
            "average_turn_latency_seconds": 1,
            "llm_latency_seconds": 0.5,
            "tool_latency_seconds": 1,
            "time_to_first_response_seconds": 0.25,
        },
        "tool_utilization": {"total_tool_calls": 2, "unique_tools_used": 1, "tool_counts": {"find": 4}},
        "tool_success_rate": {
            "tool_success_rate": 0.5,
            "total_tool_calls": 2,
            "failed_tool_calls": 1,
            "failed_tools_list": ["find"],
        },
        "grounding_utilization": {
            "total_grounding_chunks": 1,
            "total_grounded_responses": 1,
            "total_llm_responses": 1,
        },
        "agent_handoffs": {
            "total_handoffs": 1,
            "unique_agents_count": 1,
            "agents_invoked_list": ["shop"],
        },
        "sandbox_usage": {"total_sandbox_ops": 0, "unique_ops_used": 0, "sandbox_tools_used": {}},
    }
    del first["deterministic_metrics"]
    assert first == {
        "tenant": "shop",
        "question_id": "q1",
        "runs": 2,
        "llm_metrics": {"polite": {"score": 3.0, "explanation": "curt"}},
        "metrics": {
            "polite": {"score": 3.0, "outcomes": {"score": 2}},
            "recall": {"score": 0.25, "outcomes": {"score": 2}},
        },
        "verdicts": {"passed": 1, "failed": 1},
        "session_ids": ["s1", "@s2"],
    }
    assert second == {
        "question_id": "q2",
        "runs": 0,
        "deterministic_metrics": {},
        "llm_metrics": {},
        "metrics": {},
        "verdicts": {},
        "session_ids": [],
    }


def test_what_is_not_recorded_is_null() -> None:
    calls = (llm(tokens=(None, None), cached_input_tokens=None, reasoning_tokens=None),)
    made = session([("hi", [tool("find", ok=None)])], llm_calls=calls, usage=Usage(1, 64, 16), agents=None)
    groups = deterministic_metrics(made)
    null = {
        "token_usage": ["total_tokens", "prompt_tokens", "completion_tokens", "cached_tokens"],
        "cache_efficiency": list(groups["cache_efficiency"]),
        "thinking_metrics": list(groups["thinking_metrics"]),
        "context_saturation": ["max_total_tokens", "peak_usage_span"],
        "output_density": ["average_output_tokens", "total_output_tokens"],
        "tool_success_rate": ["tool_success_rate", "failed_tool_calls", "failed_tools_list"],
        "grounding_utilization": ["total_grounding_chunks", "total_grounded_responses"],
        "sandbox_usage": ["total_sandbox_ops", "unique_ops_used", "sandbox_tools_used"],
        "agent_handoffs": ["unique_agents_count", "agents_invoked_list"],
    }
    assert {(group, key): groups[group][key] for group, keys in null.items() for key in keys} == {
        (group, key): None for group, keys in null.items() for key in keys
    }


# Of the place where the captured runs were made: spangrade does not have them.
ELSEWHERE = {"USER", "ADK_USER_ID", "base_url"}


@pytest.mark.skipif(not CAPTURED.exists(), reason="the captured sessions are not part of the project")
@pytest.mark.parametrize("folder", ["customer_service", "retail", "simulation"])
def test_the_summary_has_the_keys_of_captured_ones(folder: str, tmp_path: Path) -> None:
    captured: dict[str, Any] = json.loads((CAPTURED / folder / "eval_summary.json").read_text("utf-8"))
    graded(tmp_path)
    ours = json.loads((tmp_path / "eval_summary.json").read_text("utf-8"))
    assert captured.keys() - ours.keys() <= ELSEWHERE
    assert captured["overall_summary"].keys() <= ours["overall_summary"].keys()
    means = (each["overall_summary"]["deterministic_metrics"].keys() for each in (captured, ours))
    assert next(means) == next(means)
    measured = ours["per_question_summary"][0]
    for question_ in captured["per_question_summary"]:
        assert {"question_id", "runs", "deterministic_metrics", "llm_metrics"} <= question_.keys()
        assert {group: set(keys) for group, keys in question_["deterministic_metrics"].items()} == {
            group: set(keys) for group, keys in measured["deterministic_metrics"].items()
        }
        for one in question_["llm_metrics"].values():
            assert one.keys() - measured["llm_metrics"]["polite"].keys() <= {"rubric_verdicts", "input"}


@pytest.mark.skipif(not CAPTURED.exists(), reason="the captured sessions are not part of the project")
def test_the_csv_has_the_columns_of_a_captured_one(tmp_path: Path) -> None:
    graded(tmp_path)
    (file,) = (CAPTURED / "simulation").glob("*.csv")
    with file.open(encoding="utf-8", newline="") as captured:
        columns = next(csv.reader(captured))
    with (tmp_path / "evaluation_results.csv").open(encoding="utf-8", newline="") as ours:
        assert set(columns) - set(next(csv.reader(ours))) == {
            "score.hallucinations_v1",  # metrics of that run
            "score.safety_v1",
        }


def test_what_a_metric_cannot_measure_is_null_in_reports() -> None:
    made = session()
    turns = tuple(one._replace(calls_unknown="no span has them") for one in made.turns)
    groups = deterministic_metrics(replace(made, turns=turns))
    assert {
        key: value
        for group in ("tool_utilization", "tool_success_rate")
        for key, value in groups[group].items()
    } == {
        "total_tool_calls": None,
        "unique_tools_used": None,
        "tool_counts": None,
        "tool_success_rate": None,
        "failed_tool_calls": None,
        "failed_tools_list": None,
    }
