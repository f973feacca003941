"""Metric definitions: the files that such projects have are read as they are; what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from paths import CAPTURED

from spangrade import InputError
from spangrade.evaluator.metrics.definitions import MANAGED, definitions_of, load_definitions
from spangrade.evaluator.metrics.judged import METRICS, judged

PARTS = {
    "instruction": "Judge the greeting.",
    "criteria": {"Warmth": "Is it warm?"},
    "rating_scores": {"1": "cold", "5": "warm"},
    "dataset_mapping": {"response": {"source_column": "final_response"}},
}
TEMPLATE = {
    "template": "Judge {response} of {state}.\nScore: [1-5]",
    "dataset_mapping": {
        "response": {"source_column": "final_response"},
        "state": {"source_column": "extracted_data:state_variables"},
        "unused": {"source_column": "trace_summary"},
    },
}


def refusal(document: Any) -> str:
    with pytest.raises(InputError) as error:
        definitions_of(document, "m.json")
    return str(error.value)


@pytest.mark.skipif(not CAPTURED.is_dir(), reason="the captured definitions are not in this checkout")
def test_the_definitions_of_real_projects_are_read_as_they_are() -> None:
    found = {
        file.parent.name: {
            name: (metric.bounds, metric.needs)
            for name, definition in load_definitions(file).items()
            for metric in [judged(name, definition)]
        }
        for file in CAPTURED.glob("*/metric_definitions*.json")
    }
    assert found == {
        "customer_service": {
            "trajectory_accuracy": ((0, 5), "reference_trajectory"),
            "response_correctness": ((0, 1), None),
            "tool_usage_accuracy": ((0, 5), None),
            "state_management_fidelity": ((0, 5), "reference_state_variables"),
        },
        "retail": {
            "state_variable_fidelity": ((1, 5), None),
            "market_research_depth": ((1, 5), None),
            "strategic_recommendation_quality": ((1, 5), None),
            "tool_usage_effectiveness": ((1, 5), None),
            "general_conversation_quality": ((0, 1), None),
            "instruction_following": ((0, 1), None),
            "safety": ((0, 1), None),
        },
        "simulation": {
            "multi_turn_general_quality": ((0, 1), None),
            "multi_turn_text_quality": ((0, 1), None),
            "trajectory_accuracy": ((0, 5), None),
            "tool_use_quality": ((0, 5), None),
            "capability_honesty": ((0, 5), None),
        },
    }


@pytest.mark.parametrize(
    ("columns", "needs"),
    [
        (["reference_data:reference_response"], "reference_response"),
        (["reference_data:tone.words", "reference_data:tone.length"], "tone"),
        (["reference_data:reference_response", "reference_data:tone"], "user_inputs"),
        (["final_response"], None),
    ],
)
def test_a_metric_needs_the_one_reference_that_it_shows_the_judge(
    columns: list[str], needs: str | None
) -> None:
    mapping = {f"c{number}": {"source_column": column} for number, column in enumerate(columns)}
    document = {"metrics": {"m": {**PARTS, "dataset_mapping": mapping}}}
    assert judged("m", definitions_of(document, "m.json")["m"]).needs == needs


def test_notes_are_ignored_at_every_level() -> None:
    noted = {
        "_about": 1,
        "metrics": {
            "_documentation": {"overview": ["not a metric"]},
            "greeting": {
                "_note": None,
                **PARTS,
                "criteria": {**PARTS["criteria"], "_why": 3},
                "rating_scores": {**PARTS["rating_scores"], "_scale": "one to five"},
                "dataset_mapping": {
                    "_from": [],
                    "response": {"source_column": "final_response", "_was": "response"},
                },
            },
        },
    }
    assert definitions_of(noted, "m.json") == definitions_of({"metrics": {"greeting": PARTS}}, "m.json")


def test_a_prefix_is_the_files_or_the_metrics_own() -> None:
    document = {"metric_prefix": "shop_", "metrics": {"a": PARTS, "b": {**PARTS, "metric_prefix": "b."}}}
    assert list(definitions_of(document, "m.json")) == ["shop_a", "b.b"]


def test_a_template_shows_the_judge_what_it_names_and_nothing_else() -> None:
    definition = definitions_of({"metrics": {"t": TEMPLATE}}, "m.json")["t"]
    assert definition.sources == {"response": "final_response", "state": "extracted_data:state_variables"}
    assert definition.rubric == 'Judge (the material "response") of (the material "state").\nScore: [1-5]'


@pytest.mark.parametrize(
    ("keys", "scale"),
    [
        ({"score_range": {"min": 0, "max": 10, "description": "more is better"}}, (0, 10)),
        ({"template": "Judge {response}. score: [-1 to 1]"}, (-1, 1)),
        ({"template": "Judge {response}. Score: [0.5–2.5]"}, (0.5, 2.5)),
    ],
)
def test_a_template_says_its_scale_in_a_key_or_in_words(
    keys: dict[str, Any], scale: tuple[float, float]
) -> None:
    assert definitions_of({"metrics": {"t": {**TEMPLATE, **keys}}}, "m.json")["t"].scale == scale


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"instrction": "x"}, 'metrics.m: unknown key "instrction"; did you mean "instruction"?'),
        (
            {"dataset_mapping": {"response": {"source_column": "final_respose"}}},
            'metrics.m.dataset_mapping.response: no column "final_respose"; did you mean "final_response"?',
        ),
        ({"dataset_mapping": {"response": {}}}, "metrics.m.dataset_mapping.response.source_column: "),
        ({"dataset_mapping": {}}, "metrics.m: dataset_mapping: missing; it lists what the judge is shown"),
        ({"rating_scores": {"bad": "x"}}, "metrics.m.rating_scores.bad.[key]: "),
        (
            {"rating_scores": {"1": "x"}},
            "metrics.m: rating_scores: expected two scores or more, each with its meaning",
        ),
        ({"criteria": ["warm"]}, "metrics.m.criteria: "),
        ({"metric_type": "code"}, "metrics.m.metric_type: "),
        ({"score_range": {"min": 5, "max": 1}}, "metrics.m.score_range: min must be below max"),
        (
            {"is_managed": True},
            "metrics.m: is_managed: a managed metric needs a managed_metric_name",
        ),
        (
            {"is_managed": True, "managed_metric_name": "GENRAL_QUALITY"},
            'metrics.m: managed_metric_name: "GENRAL_QUALITY" is not known; did you mean "GENERAL_QUALITY"?',
        ),
        (
            {"template": "Judge {answer}. Score: [1-5]"},
            'metrics.m: template: "{answer}" is neither in dataset_mapping nor a column',
        ),
        (
            {"template": "Judge {response}.", "rating_scores": {}},
            'metrics.m: template: no scale; add a score_range, or "Score: [1-5]" to its text',
        ),
        (
            {"dataset_mapping": {"response": {"source_column": ""}}},
            "metrics.m.dataset_mapping.response.source_column: String should have at least 1 character",
        ),
        (
            {"instruction": None},
            "metrics.m: no rubric; expected a template, an instruction, or is_managed",
        ),
    ],
)
def test_what_is_wrong_is_told_with_file_metric_and_key(changes: dict[str, Any], said: str) -> None:
    text = refusal({"metrics": {"good": PARTS, "m": {**PARTS, **changes}}})
    assert text.startswith(f"m.json: {said}")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "m.json: metrics: Field required"),
        ([], "m.json: Input should be a valid dictionary or instance of Definitions"),
        ({"metrics": [PARTS]}, "m.json: metrics: Input should be a valid dictionary"),
        (
            {"metrics": {"my metric": PARTS}},
            'm.json: metrics: "my metric" is not a metric name; expected letters, digits, _, -, . and @',
        ),
    ],
)
def test_what_is_no_file_of_definitions_is_refused(document: Any, said: str) -> None:
    assert refusal(document) == said


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text('{"metrics": ')
    with pytest.raises(InputError, match=r"m\.json: not JSON: line 1"):
        load_definitions(file)


def test_our_own_files_are_definitions() -> None:
    assert [metric.name for metric in METRICS] == [
        "trajectory_accuracy@judge",
        "tool_usage_accuracy@judge",
        "state_management_fidelity@judge",
        "response_correctness@judge",
        "rubrics@judge",
        "goal_reached@judge",
        "free_of_friction@judge",
        "faithful_to_tools@judge",
        "final_response_match",
        "responses_match",
        "response_match",
        "assertions",
        "required_texts",
    ]
    for name in sorted(MANAGED):
        metric = judged(name, definitions_of(managed(name.lower() + "_v1"), "m.json")["m"])
        assert (metric.bounds, metric.needs) == ((0, 1), None)


def managed(name: str, **keys: Any) -> dict[str, Any]:
    definition = {"is_managed": True, "managed_metric_name": name, **keys}
    return json.loads(json.dumps({"metrics": {"m": definition}}))
