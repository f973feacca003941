"""The sentence of `lint --dataset` on each golden question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from otlp_sessions import Said, write_sessions

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.reports.question_sentence import passes_if


def test_lint_says_when_each_question_passes(
    spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = {"name": "look_up", "arguments": {"order_id": "A1"}}
    questions = [
        {
            "id": "a1",
            "user_inputs": "Hi",
            "reference_tool_interactions": [call],
            "required_texts": ["shipped"],
        },
        {"id": "a2", "user_inputs": "Bye"},
    ]
    Path("golden.json").write_text(json.dumps(questions))
    write_sessions(Path("spans.jsonl"), [("s1", [Said("Hi")])])
    spangrade("import", "spans.jsonl", "--db", "s.duckdb")
    done = spangrade("lint", "--dataset", "golden.json", "--db", "s.duckdb")
    sentences = [
        """a1 passes if: look_up was called with order_id "A1", and a reply contains 'shipped'""",
        "a2 has nothing to compare with: it is inconclusive unless a gate is requested",
    ]
    assert done.out[:2] == sentences
    alone = spangrade("lint", "--dataset", "golden.json")  # before anything is recorded
    assert (alone.code, alone.out) == (0, [*sentences, "nothing is recorded yet: spangrade doctor says why"])
    assert spangrade("lint", "--dataset", "golden.json", "--db", "other.duckdb").code == 2


@pytest.mark.parametrize(
    ("references", "conditions"),
    [
        ({"reference_tool_interactions": []}, "no tool was called"),
        (
            {"reference_tool_alternatives": [[{"name": "a"}], [{"name": "b", "status": "error"}]]},
            "a was called, or b was called, which failed",
        ),
        (
            {
                "reference_tool_interactions": [
                    {"name": "a", "arguments": {"x": {"$any": [1, {"$text": "b"}]}, "y": None, "z": "*"}},
                    {"name": "b", "arguments": {"x": 1}, "match": "exact"},
                    {"name": "c", "arguments": {"x": 1}, "match": "superset"},
                    {"name": "d", "arguments": {"x": 1}, "match": "ignore"},
                    {"name": "e", "arguments": {}, "match": "exact", "result": {"$number": 5, "within": 1}},
                ],
                "requested_calls": "count",
            },
            (
                'a was called with x 1 or the words "b", z any text and b was called with exactly x 1 and '
                "c was called with nothing but x 1 and d was called and "
                "e was called with exactly no arguments, which returned 5 ± 1, be it only requested"
            ),
        ),
        (
            {"no_further_calls": ["a", "b"], "failed_calls": "ignore"},
            "no other call of a, b was made (failed calls aside)",
        ),
        ({"forbidden_tools": ["a", "b"]}, "a and b were not called"),
        (
            {"forbidden_tools": {"tools": ["a"], "failed_calls": "ignore"}},
            "a was not called (failed calls aside)",
        ),
        ({"at_most": {"a": 3, "b": 1}}, "a was called at most 3 times, and b was called at most 1 time"),
        (
            {"before": [{"first": "a", "then": "b", "same": ["id"]}]},
            "each b came after a with the same id",
        ),
        (
            {"reference_trajectory": ["s", ["a", "b"]], "trajectory": "major_steps"},
            "the steps were s, (a, b in any order), other steps aside",
        ),
        ({"reference_response": {"text": "a.*b", "match": "pattern"}}, "the last reply matches 'a.*b'"),
        ({"reference_responses": ["Hello", None]}, "the reply of turn 1 says the same as 'Hello'"),
        (
            {"required_texts": [{"text": "x", "turn": 2}], "forbidden_texts": ["y"]},
            "the reply of turn 2 contains 'x', and no reply contains 'y'",
        ),
        ({"required_texts": [{"$any": ["x", "y"]}]}, 'a reply has "x" or "y"'),
        ({"reference_state_variables": {"n": None}}, "n is null at the end"),
        (
            {"assertions": ["it is kind"], "goal": "done"},
            "a judge finds that done, and a judge finds that it is kind",
        ),
        ({"max_cost_usd": 0.5, "max_latency_s": 2}, "it cost at most 0.5 USD, and it took at most 2 s"),
    ],
)
def test_every_reference_is_a_condition(references: dict[str, Any], conditions: str) -> None:
    question = GoldenQuestion.model_validate({"id": "q", "user_inputs": ["Hi", "Bye"], **references})
    assert passes_if(question) == f"passes if: {conditions}"
