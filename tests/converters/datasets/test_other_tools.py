"""Datasets of promptfoo, Inspect and DeepEval as golden questions, by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade

from spangrade.converters.datasets.golden import load_golden

PROMPTFOO = r"""
description: Orders
prompts:
  - "Where is {{order}}?"
  - file://prompt.txt
providers: [openai:gpt-4.1-mini]
defaultTest:
  options: {provider: openai:gpt-4.1}
  assert:
    - type: cost
      threshold: 0.01
tests:
  - description: an order that is shipped
    vars: {order: [A1, A2]}
    assert:
      - {type: icontains, value: shipped}
      - {type: contains, value: Monday}
      - {type: not-contains, value: lost}
      - {type: latency, threshold: 2500}
      - {type: regex, value: "order A\\d", weight: 2}
      - {type: is-json}
      - {type: icontains-any, value: [today, "{{order}}"]}
      - {type: starts-with, value: "Yes."}
  - vars: {order: A3}
    assert:
      - {type: equals, value: It is lost.}
      - {type: javascript, value: output.length < 10}
      - {type: regex, value: "(?<order>A)"}
  - vars: {order: file://order.txt}
  - vars: file://vars.yaml
    assert: file://assert.yaml
"""
CHAT = """
prompts: ['[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Is {{what}} here?"}]']
tests:
  - vars: {what: "order {{id}}", id: A1}
    assert: [{type: contains-all, value: ["{{id}}", here]}]
"""


def converted(
    spangrade: Spangrade, folder: Path, tool: str, content: str, name: str
) -> tuple[int, list[str], list[Any]]:
    """Return the exit code, the lines on standard error, and the questions."""
    source, golden = folder / name, folder / "golden.json"
    source.write_text(content)
    done = spangrade("convert", source, "--output", golden)
    load_golden(golden)
    questions = json.loads(golden.read_text())["golden_questions"]
    return done.code, [line.replace(f"{folder}/", "") for line in done.err], questions


def test_a_configuration_of_promptfoo(spangrade: Spangrade, tmp_path: Path) -> None:
    code, err, questions = converted(spangrade, tmp_path, "promptfoo", PROMPTFOO, "promptfoo.yaml")
    first = {
        "max_cost_usd": 0.01,
        "required_texts": ["shipped", "Monday", {"$pattern": r"order A\d"}],
        "forbidden_texts": ["lost"],
        "max_latency_s": 2.5,
        "assertions": ["the last reply is valid JSON"],
    }

    def of(order: str) -> dict[str, Any]:
        more = [{"$any": ["today", order]}, {"$pattern": r"\AYes\."}]
        return {**first, "required_texts": [*first["required_texts"], *more]}  # type: ignore[misc]

    described = {"metadata": {"description": "an order that is shipped"}}
    second = {"max_cost_usd": 0.01, "reference_response": {"text": "It is lost.", "match": "exact"}}
    assert questions == [
        {
            "id": "test-1-vars-1-prompt-1",
            "user_inputs": ["Where is A1?"],
            **described,
            "reference_data": of("A1"),
        },
        {
            "id": "test-1-vars-2-prompt-1",
            "user_inputs": ["Where is A2?"],
            **described,
            "reference_data": of("A2"),
        },
        {"id": "test-2-prompt-1", "user_inputs": ["Where is A3?"], "reference_data": second},
    ]
    assert code == 2
    for line in (
        "promptfoo.yaml.providers: has no counterpart here",
        "promptfoo.yaml: defaultTest.options: has no counterpart here",
        "promptfoo.yaml: tests[1].assert[1]: javascript has no counterpart here",
        "promptfoo.yaml: tests[1].assert[2]: regex has no counterpart here",
        "promptfoo.yaml: tests[0].assert[4].weight: has no counterpart here",
        "promptfoo.yaml: tests[0].assert[5]: the judge is asked",
        "promptfoo.yaml: prompts[1]: tests[0]: expected a text with {{names}} of vars alone",
        "promptfoo.yaml: prompts[0]: tests[2]: expected a text with {{names}} of vars alone",
        "promptfoo.yaml: tests[3].vars: 'file://vars.yaml' has no counterpart here",
        "promptfoo.yaml: tests[3].assert: 'file://assert.yaml' has no counterpart here",
    ):
        assert sum(one.endswith(line) for one in err) == 1, (line, err)


def test_a_prompt_of_messages_and_variables_in_values_of_promptfoo(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    _, err, questions = converted(spangrade, tmp_path, "promptfoo", CHAT, "chat.yaml")
    references = {"required_texts": ["A1", "here"]}
    assert questions == [{"id": "test-1", "user_inputs": ["Is order A1 here?"], "reference_data": references}]
    assert sum("prompts[0]: what is not of the user has no counterpart" in line for line in err) == 1


def test_samples_of_inspect(spangrade: Spangrade, tmp_path: Path) -> None:
    samples = [
        {"input": "2+2?", "target": "4", "id": 7, "metadata": {"topic": "sums"}},
        {
            "input": [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            ],
            "target": ["Hello", "Hi"],
            "sandbox": "docker",
        },
    ]
    code, err, questions = converted(
        spangrade, tmp_path, "inspect", "\n".join(map(json.dumps, samples)), "samples.jsonl"
    )
    assert questions == [
        {
            "id": "7",
            "user_inputs": ["2+2?"],
            "metadata": {"topic": "sums"},
            "reference_data": {"reference_response": "4"},
        },
        {
            "id": "sample-2",
            "user_inputs": ["Hi"],
            "reference_data": {"required_texts": [{"$any": ["Hello", "Hi"]}]},
        },
    ]
    assert (code, sorted(line.partition("samples.jsonl: ")[2] for line in err)) == (
        0,
        [
            "[1].input: what is not of the user has no counterpart here",
            "[1].sandbox: has no counterpart here",
            "[1].target: one of several is to be in a reply here",
        ],
    )


def test_goldens_of_deepeval(spangrade: Spangrade, tmp_path: Path) -> None:
    goldens = [
        {
            "input": "Where is A1?",
            "expected_output": "It is shipped.",
            "expected_tools": [{"name": "look_up", "input_parameters": {"id": "A1"}}, "say"],
            "context": ["orders"],
            "additional_metadata": {"topic": "orders"},
        },
        {"scenario": "A refund", "expectedOutcome": "the refund is made", "turns": []},
    ]
    code, err, questions = converted(spangrade, tmp_path, "deepeval", json.dumps(goldens), "goldens.json")
    assert questions == [
        {
            "id": "golden-1",
            "user_inputs": ["Where is A1?"],
            "metadata": {"topic": "orders"},
            "reference_data": {
                "reference_response": "It is shipped.",
                "reference_tool_interactions": [
                    {"tool_name": "look_up", "input_arguments": {"id": "A1"}},
                    {"tool_name": "say"},
                ],
            },
        },
        {
            "id": "golden-2",
            "metadata": {"scenario": "A refund"},
            "reference_data": {"goal": "the refund is made"},
        },
    ]
    assert (code, len(err), err[0].endswith("[0].context: has no counterpart here")) == (0, 1, True)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('{"prompts": []}', "expected promptfoo's configuration with a list of `tests`"),
        ('[{"question": "Hi"}]', "expected a file of promptfoo, Inspect, DeepEval or ADK, a golden file or "),
        ('{"goldens": ["Hi"]}', "expected DeepEval's goldens, a list of objects"),
    ],
)
def test_another_file_is_refused(spangrade: Spangrade, tmp_path: Path, content: str, error: str) -> None:
    source = tmp_path / "a.json"
    source.write_text(content)
    done = spangrade("convert", source, "--output", tmp_path / "golden.json")
    (line,) = done.err
    assert (done.code, (tmp_path / "golden.json").exists()) == (2, False)
    assert line.startswith(f"spangrade: {source}: {error}")
