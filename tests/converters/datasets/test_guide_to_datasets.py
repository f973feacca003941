"""The guide to evaluation datasets, sentence by sentence.

Each test names the sentences that it checks, by a part of each. The last tests read the guide, where it is,
and compare: no sentence is without a test or a documented deviation.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import llm, question, session, tool
from command_line import Spangrade
from documents import misquoted, uncovered
from grading import grade, run_metric
from paths import HISTORY, ROOT, SAMPLE, SHARED

from spangrade import InputError
from spangrade.converters.datasets.formats import find_dataset, read_dataset
from spangrade.converters.datasets.golden import GoldenDataset, golden_of
from spangrade.evaluator.grading.metadata import parse_where
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import Inconclusive, Metric, Score, load_metrics, parse_metric
from spangrade.evaluator.metrics.columns import column, file_session
from spangrade.evaluator.metrics.judged import shipped_definitions

GUIDE = SHARED / "seeds" / "evaluation_datasets.md"
PAGE = ROOT / "docs" / "golden_questions.md"

QUOTED: dict[str, str] = {}

# Where this project does something else, and the words of docs/golden_questions.md that say so.
DEVIATIONS = {
    "The expected sequence of agents or major steps.": (
        'steps that it leaves out are free with `"trajectory": "major_steps"`'
    ),
    "Location: `evaluation/datasets/`": "A dataset may lie in any folder",
    "uv run python evaluation/scripts/convert_test_to_golden.py": "the scripts are in `converters/`",
    "`sub_agent_trace` | JSON list of agent turns `{name, text}`.": "`{agent_name, text_response}`",
    "`trace_summary` | Plain text log": "`trajectory_accuracy` compares the spans",
    "The root object must contain a `golden_questions` list.": "A bare list of questions",
    "`agents_evaluated` | `list[str]` | Yes |": "`agents_evaluated` and `reference_data` are optional",
    "`reference_data` | `dict` | Yes |": "`agents_evaluated` and `reference_data` are optional",
    "`user_inputs` | `list[str]` | Yes |": "a single text is one turn",
    "`02_agent_run_eval.py` automatically detects": "`spangrade grade` takes its place",
}


def quotes(*parts: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark the sentences of the guide that a test checks."""

    def marked(test: Callable[..., None]) -> Callable[..., None]:
        QUOTED.update(dict.fromkeys(parts, test.__name__))
        return test

    return marked


ITEM: dict[str, Any] = {
    "id": "q_billing_01",
    "user_inputs": ["Hi", "I have a billing question"],
    "agents_evaluated": ["shop"],
    "metadata": {"complexity": "high", "topic": "refund"},
    "reference_data": {
        "reference_tool_interactions": [
            {"tool_name": "access_cart_information", "input_arguments": {"customer_id": "123"}}
        ],
        "reference_trajectory": ["shop", "access_cart_information"],
        "reference_state_variables": {"refund_amount": 50.00},
        "tone": "kind",
    },
}
DATASET = golden_of({"golden_questions": [ITEM]}, "guide")
(ASKED,) = DATASET.golden_questions
CALL = tool("access_cart_information", {"customer_id": "123"})
ANSWER = session([("Hi", [CALL]), ("I have a billing question", ())], state_variables={"refund_amount": 50})


def verdict(answer: Any = ANSWER, dataset: GoldenDataset = DATASET, asked: Sequence[Metric] = ()) -> Verdict:
    return next(grade([answer], dataset, asked)).verdict


@quotes(
    "explains the schema and structure of the Golden Datasets used to evaluate agents",
    '"Source of Truth"',
    "Each item represents a single test session.",
    '"golden_questions": [',
    "The ground truth used by metrics to grade the agent.",
    "`reference_data` object contains the expected behaviors.",
)
def test_a_session_is_graded_by_the_item_that_it_answers() -> None:
    assert verdict() is Verdict.PASSED
    assert verdict(replace(ANSWER, state_variables={"refund_amount": 51})) is Verdict.FAILED


@quotes("Naming Convention: `<agent_name>_golden.json`")
def test_a_folder_has_the_dataset_of_that_name(tmp_path: Path) -> None:
    assert find_dataset(SAMPLE)[0].name == "customer_service_golden.json"
    (tmp_path / "questions.json").write_text("{}")
    with pytest.raises(InputError, match=r"expected one file named golden.json or \*_golden.json"):
        find_dataset(tmp_path)


@pytest.mark.parametrize(
    "root", [{}, {"golden_questions": {}}, {"golden_questions": []}, {"questions": [ITEM]}]
)
def test_any_other_root_is_refused(root: Any) -> None:
    with pytest.raises(InputError):
        golden_of(root, "guide")


@quotes(
    "`id` | `string` | Yes |",
    "`metadata` | `dict` | No |",
)
def test_the_fields_have_their_types_and_id_is_required() -> None:
    for field, wrong in (
        ("id", 1),
        ("user_inputs", 1),
        ("agents_evaluated", "shop"),
        ("reference_data", []),
        ("metadata", []),
    ):
        lacking = {key: value for key, value in ITEM.items() if key != field}
        if field != "id":
            golden_of({"golden_questions": [lacking]}, "guide")
        else:
            with pytest.raises(InputError, match=rf"\.{field}: missing"):
                golden_of({"golden_questions": [lacking]}, "guide")
        with pytest.raises(InputError, match=rf"\.{field}: expected "):
            golden_of({"golden_questions": [{**ITEM, field: wrong}]}, "guide")


@quotes("Unique identifier for the test case. Used in reports and logs.")
def test_an_id_is_unique_and_stands_in_the_grade() -> None:
    with pytest.raises(InputError, match="ids must differ"):
        golden_of({"golden_questions": [ITEM, ITEM]}, "guide")
    assert next(grade([ANSWER], DATASET)).question_id == "q_billing_01"


@quotes("The sequence of messages the user sends to the agent. Simulates a multi-turn conversation.")
def test_a_session_with_the_messages_answers_the_question_and_has_to_answer_all() -> None:
    other = session([("Hi", [CALL]), ("Something else", ())])
    assert verdict(other) is Verdict.UNMATCHED
    stopped = session([("Hi", [CALL])], state_variables={"refund_amount": 50})
    assert verdict(stopped) is Verdict.FAILED


@quotes("List of agent names expected to be involved (for routing checks).")
def test_an_agent_that_took_no_part_is_a_failure() -> None:
    both = golden_of({"golden_questions": [{**ITEM, "agents_evaluated": ["shop", "cashier"]}]}, "guide")
    assert verdict(dataset=both) is Verdict.FAILED


@quotes("Arbitrary tags for filtering/analysis")
def test_tags_filter() -> None:
    assert parse_where('metadata.complexity = "high" and metadata.topic = refund').chosen(DATASET) == DATASET
    with pytest.raises(InputError):
        parse_where("metadata.topic = order").chosen(DATASET)


@quotes("You can add custom keys here")
def test_a_metric_reads_a_custom_key() -> None:
    tone = Metric("tone", lambda made, asked: asked.reference("tone") == "kind", needs="tone", threshold=1)
    assert run_metric(tone, ANSWER, ASKED) == Score(1.0, True)


@quotes("A list of tools the agent must call to be considered correct.", '"reference_tool_interactions": [')
def test_every_listed_tool_must_be_called() -> None:
    other = tool("access_cart_information", {"customer_id": "124"})
    for calls in ((), (other,), (tool("generate_qr_code", {"discount_value": 10}),)):
        made = session([("Hi", calls), ("I have a billing question", ())])
        assert run_metric(parse_metric("tool_usage_accuracy"), made, ASKED).value == 0
    more = session([("Hi", [CALL, other]), ("I have a billing question", ())])
    assert run_metric(parse_metric("tool_usage_accuracy"), more, ASKED).passed


@quotes(
    "Used by the `trajectory_accuracy` metric.",
    '"reference_trajectory": [',
)
def test_the_trajectory_names_agents_and_tools() -> None:
    assert load_metrics()["trajectory_accuracy"].needs == "reference_trajectory"
    assert run_metric(parse_metric("trajectory_accuracy"), ANSWER, ASKED).value == 1
    agents = question(
        "Hi", trajectory=["GreetingAgent", "BillingSupportAgent", "PaymentTool"], tools=["PaymentTool"]
    )
    names = ["GreetingAgent", "BillingSupportAgent"]
    made = session([("Hi", [tool("PaymentTool")])], agents=names, steps=[*names, "PaymentTool"])
    assert run_metric(parse_metric("trajectory_accuracy"), made, agents).value == 1
    swapped = session([("Hi", [tool("PaymentTool")])], agents=names, steps=[*names[::-1], "PaymentTool"])
    assert run_metric(parse_metric("trajectory_accuracy"), swapped, agents).passed is False


def test_major_steps_leave_out_what_they_do_not_name() -> None:
    made = session(
        [("Hi", [tool("look_up"), tool("PaymentTool")])],
        agents=["support"],
        steps=["support", "look_up", "PaymentTool"],
    )
    asked = question("Hi", trajectory=["support", "PaymentTool"])
    reference = asked.reference_data.model_copy(update={"trajectory": "major_steps"})
    named = asked.model_copy(update={"reference_data": reference})
    metric = parse_metric("trajectory_accuracy")
    assert run_metric(metric, made, named).value == 1
    failed = run_metric(metric, made, asked)
    assert (round(failed.value, 3), failed.reason) == (
        0.8,
        'not expected: look_up (steps that it does not name are free with "trajectory": "major_steps")',
    )


@quotes(
    "The expected values in the agent's memory (session state) at the end of the run.",
    "Used by the `state_management_fidelity` metric.",
    '"reference_state_variables": {',
)
def test_the_state_at_the_end_has_the_expected_values() -> None:
    expected = {"customer_intent": "refund", "refund_amount": 50.00, "target_date": "2024-01-01"}
    asked = question("Hi", state=expected)
    metric = parse_metric("state_management_fidelity")
    assert run_metric(metric, replace(ANSWER, state_variables={**expected, "more": 1}), asked).value == 1
    changed = {**expected, "target_date": "2024-01-02"}
    assert run_metric(metric, replace(ANSWER, state_variables=changed), asked).value == pytest.approx(2 / 3)


@quotes("Copy the structure above and write your JSON file manually.", "Best for small, precise test suites.")
def test_a_file_that_is_written_by_hand_is_graded(spangrade: Spangrade, tmp_path: Path) -> None:
    asked = {**ITEM, "user_inputs": ["Where is order 1043?"], "reference_data": {}}
    (tmp_path / "my_golden.json").write_text(json.dumps({"golden_questions": [asked]}))
    command = ("grade", tmp_path / "my_golden.json", "--db", tmp_path / "s.duckdb")
    done = spangrade(*command, "--spans", SAMPLE / "spans.otlp.jsonl")
    assert (done.code, done.err) == (4, [])


@quotes(
    "If you have existing conversation logs, use the helper script:",
    "The input `raw_logs.json` must be a list of dicts with `query` and optional `expected_tool_use` fields.",
)
def test_a_log_becomes_a_question(spangrade: Spangrade, tmp_path: Path) -> None:
    log = [{"query": "Hi"}, {"query": "My cart?", "expected_tool_use": [{"tool_name": "get_cart"}]}]
    (tmp_path / "raw_logs.json").write_text(json.dumps(log))
    options = ("--input", tmp_path / "raw_logs.json", "--output", tmp_path / "new_golden.json")
    assert spangrade("convert_test_to_golden.py", *options, "--agent", "my_agent").code == 0
    (made,) = read_dataset(tmp_path / "new_golden.json").questions.golden_questions
    assert (made.user_inputs, made.agents_evaluated) == (("Hi", "My cart?"), ("my_agent",))
    assert [call.tool_name for call in made.reference_data.reference_tool_interactions or ()] == ["get_cart"]
    (tmp_path / "raw_logs.json").write_text(json.dumps({"query": "Hi"}))
    assert spangrade("convert_test_to_golden.py", *options, "--agent", "my_agent").code == 2


@pytest.fixture
def row(spangrade: Spangrade, tmp_path: Path) -> dict[str, str]:
    """Return the first row of the CSV that the converter makes of ADK's own history."""
    spangrade(
        "convert_adk_history_to_dataset.py",
        "--agent-dir",
        HISTORY / "2.13.0",
        "--output",
        tmp_path / "run.csv",
    )
    csv.field_size_limit(2**31 - 1)
    with (tmp_path / "run.csv").open(encoding="utf-8", newline="") as file:
        return next(csv.DictReader(file))


@quotes(
    "(ADK Eval -> Convert -> Run), the dataset is a CSV file",
    "This serves as the input for the evaluation script.",
)
def test_the_csv_of_an_eval_history_is_graded(
    spangrade: Spangrade, tmp_path: Path, row: dict[str, str]
) -> None:
    done = spangrade("grade", tmp_path / "run.csv", "--db", tmp_path / "s.duckdb")
    assert (done.code, done.err, done.out[0]) == (4, [], "2 sessions: 2 inconclusive")


@quotes("`user_inputs` | JSON list of user strings")
def test_user_inputs_are_the_prompt(row: dict[str, str]) -> None:
    inputs = json.loads(row["user_inputs"])
    assert all(isinstance(text, str) for text in inputs)
    assert column("prompt", file_session(ANSWER, {"user_inputs": inputs}), ASKED) == inputs


@quotes("`final_response` | The text of the agent's last message.")
def test_the_final_response_is_the_response(row: dict[str, str]) -> None:
    reply = row["final_response"]
    assert reply == "This is the returns agent. I have opened a return for order 777."
    assert column("response", file_session(ANSWER, {"final_response": reply}), ASKED) == reply


@quotes("Used for `response_correctness` (checking consistency).")
def test_the_sub_agent_trace_is_shown_to_response_correctness(row: dict[str, str]) -> None:
    assert json.loads(row["sub_agent_trace"])[-1] == {
        "agent_name": "returns_agent",
        "text_response": row["final_response"],
    }
    assert "sub_agent_trace" in shipped_definitions()["response_correctness@judge"].sources.values()
    made = file_session(ANSWER, {"sub_agent_trace": [{"name": "a", "text": "b"}]})
    assert column("sub_agent_trace", made, ASKED) == [{"name": "a", "text": "b"}]


@quotes("Used for `trajectory_accuracy` (checking flow).")
def test_the_trace_summary_is_shown_to_trajectory_accuracy_by_a_judge(row: dict[str, str]) -> None:
    assert row["trace_summary"].startswith("User: Hi, I'm customer C-1001.")
    assert "trace_summary" in shipped_definitions()["trajectory_accuracy@judge"].sources.values()


@quotes("`extracted_data` | JSON dict containing `state_variables` and `tool_interactions`.")
def test_extracted_data_are_graded(spangrade: Spangrade, tmp_path: Path, row: dict[str, str]) -> None:
    extracted = json.loads(row["extracted_data"])
    extracted["state_variables"] = {"planted": 1}
    extracted["tool_interactions"] = [{"tool_name": "planted", "output_result": {"ok": True}}]
    reference = {
        "reference_state_variables": {"planted": 1},
        "reference_tool_interactions": [{"tool_name": "planted"}],
    }
    changed = {
        **row,
        "extracted_data": json.dumps(extracted),
        "reference_data": json.dumps(reference),
        "agents_evaluated": '["customer_service_agent"]',
    }
    with (tmp_path / "planted.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(changed))
        writer.writeheader()
        writer.writerow(changed)
    spangrade("grade", tmp_path / "planted.csv", "--db", tmp_path / "s.duckdb", "--out", tmp_path)
    (line,) = map(json.loads, (tmp_path / "sessions.jsonl").read_text().splitlines())
    assert line["verdict"] == "passed"
    assert [
        line["metrics"][name]["value"] for name in ("state_management_fidelity", "tool_usage_accuracy")
    ] == [1, 1]


@quotes("`session_trace` | JSON OpenTelemetry-style span list.")
def test_cost_and_latency_come_from_the_spans(tmp_path: Path, row: dict[str, str]) -> None:
    assert {"name", "span_id", "trace_id", "start_time", "end_time"} <= json.loads(row["session_trace"])[
        0
    ].keys()
    assert len(read_dataset(tmp_path / "run.csv").spans or ()) > len(json.loads(row["session_trace"]))
    metrics = [parse_metric("cost"), parse_metric("latency_metrics")]
    known = replace(ANSWER, llm_calls=(llm(),), cost_usd=0.01)
    assert [run_metric(metric, known, None).value for metric in metrics] == [0.01, 3.0]
    assert isinstance(run_metric(metrics[0], replace(ANSWER, llm_calls=(llm(),)), None), Inconclusive)


@pytest.mark.skipif(not GUIDE.is_file(), reason="the guide is not in this checkout")
def test_every_sentence_of_the_guide_is_quoted_by_a_test_or_a_documented_deviation() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    assert uncovered(guide, [*QUOTED, *DEVIATIONS]) == []
    whole_rows = [part for part in QUOTED if not part.startswith("Used for `")]
    assert misquoted(guide, [*whole_rows, *DEVIATIONS]) == []


def test_every_deviation_from_the_guide_is_documented() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Where this differs from the guide")[2]
    missing = [words for words in DEVIATIONS.values() if words not in " ".join(section.split())]
    assert (missing, bool(section)) == ([], True)
