"""Scenarios of simulated users: in golden questions, and to and from ADK's eval sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Done
from command_line import run as spangrade

from spangrade import InputError
from spangrade.converters.datasets.golden import golden_of
from spangrade.tracer.store import Store

SCENARIO = {
    "starting_prompt": "I want to return my shoes.",
    "plan": ["Return order {order}", "Ask when the money arrives"],
    "facts": {"order": "A-1001"},
    "persona": "In a hurry.",
    "ends_when": {"refused": False, "max_turns": 6},
}
QUESTION = {"id": "q1", "scenario": SCENARIO, "agents_evaluated": ["shop"], "reference_data": {}}


def question(**changes: Any) -> Any:
    raw = {key: value for key, value in {**QUESTION, **changes}.items() if value is not ...}
    return golden_of({"golden_questions": [raw]}, "golden.json").golden_questions[0]


def refusal(**changes: Any) -> list[str]:
    with pytest.raises(InputError) as refused:
        question(**changes)
    return str(refused.value).replace('golden.json: golden_questions[0] (id "q1")', "").splitlines()


def test_a_scenario_takes_the_place_of_user_inputs() -> None:
    read = question()
    assert read.user_inputs == ("I want to return my shoes.",)
    assert read.scenario.filled_plan == ("Return order A-1001", "Ask when the money arrives")
    assert read.scenario.ends_when.model_dump() == {
        "plan_done": True,
        "refused": False,
        "handed_over": True,
        "max_turns": 6,
    }
    again = json.loads(read.model_dump_json(exclude_unset=True))
    assert golden_of({"golden_questions": [again]}, "again").golden_questions[0] == read


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"scenario": ...}, [".user_inputs: missing"]),
        ({"user_inputs": ["Hello"]}, [": expected user_inputs or a scenario, found both"]),
        ({"scenario": {"plan": []}}, [".scenario.starting_prompt: missing"]),
        ({"scenario": {**SCENARIO, "fact": {}}}, ['.scenario: unknown key "fact"; did you mean "facts"?']),
        (
            {"scenario": {**SCENARIO, "facts": {"n": 1}}},
            [".scenario.facts.n: expected a string, found a number"],
        ),
        (
            {"scenario": {**SCENARIO, "ends_when": {"max_turns": 0}}},
            [".scenario.ends_when.max_turns: Input should be greater than or equal to 1"],
        ),
        (
            {"reference_data": {"reference_responses": ["Done."]}},
            [": reference_data.reference_responses: a scenario has no fixed turns"],
        ),
    ],
)
def test_a_mistake_in_a_scenario_is_named(changes: dict[str, Any], lines: list[str]) -> None:
    assert [line for line in refusal(**changes) if line.startswith((".", ":"))] == lines


def test_a_question_that_asks_by_another_scenario_has_another_digest() -> None:
    from spangrade.evaluator.grading.stored_run import digest_of

    other = {**SCENARIO, "facts": {"order": "A-1002"}}
    assert digest_of([question()]) == digest_of([question()])
    assert digest_of([question()]) != digest_of([question(scenario=other)])


def convert(source: str, output: str) -> Done:
    return spangrade("convert", source, "--output", output)


PERSONA = {
    "id": "calm",
    "description": "Calm and exact.",
    "behaviors": [
        {"name": "a", "description": "b", "behavior_instructions": ["c"], "violation_rubrics": ["d"]}
    ],
}


def evalset(*scenarios: dict[str, Any]) -> dict[str, Any]:
    return {
        "eval_set_id": "back",
        "name": "back",
        "eval_cases": [
            {
                "eval_id": f"c{number}",
                "conversation_scenario": scenario,
                "session_input": {"app_name": "shop", "user_id": "user", "state": {"cart": 1}},
                "final_session_state": {"cart": 0},
                "rubrics": [
                    {"rubric_id": f"c{number}-rubric-1", "rubric_content": {"text_property": "polite"}}
                ],
            }
            for number, scenario in enumerate(scenarios, 1)
        ],
    }


def test_adks_scenarios_and_personas_are_read_and_written_back_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = evalset(
        {
            "starting_prompt": "Hi",
            "conversation_plan": "Book a flight.\nThen a car.",
            "user_persona": "EXPERT",
        },
        {"starting_prompt": "Hi", "conversation_plan": "One.\n\nTwo.", "user_persona": PERSONA},
    )
    Path("shop.evalset.json").write_text(json.dumps(given))
    assert spangrade(*["convert", "shop.evalset.json", "--output", "golden.json"]).code == 0
    golden = json.loads(Path("golden.json").read_bytes())["golden_questions"]
    assert [one["scenario"] for one in golden] == [
        {"starting_prompt": "Hi", "plan": ["Book a flight.", "Then a car."], "persona": "EXPERT"},
        {"starting_prompt": "Hi", "plan": ["One.\n\nTwo."], "persona": PERSONA},
    ]
    assert spangrade(*["convert", "golden.json", "--output", "back.evalset.json"]).code == 0
    assert json.loads(Path("back.evalset.json").read_bytes()) == given


def test_what_adk_has_no_place_for_in_a_scenario_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = {"reference_tool_interactions": [{"tool_name": "return"}]}
    golden = {"golden_questions": [{**QUESTION, "reference_data": calls}]}
    Path("golden.json").write_text(json.dumps(golden))
    done = convert("golden.json", "out.evalset.json")
    assert json.loads(Path("out.evalset.json").read_bytes())["eval_cases"][0]["conversation_scenario"] == {
        "starting_prompt": "I want to return my shoes.",
        "conversation_plan": "Return order A-1001\nAsk when the money arrives\nYou know: order: A-1001",
        "user_persona": {"id": "persona", "description": "In a hurry.", "behaviors": []},
    }
    (said,) = done.err
    assert said == (
        "spangrade: q1: left out, an eval set has no place for it: scenario.facts, which are in the plan's "
        "text, scenario.ends_when, reference_tool_interactions"
    )


def test_lint_says_what_a_scenario_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Store.open(tmp_path / "spangrade.duckdb").close()
    empty = {**QUESTION, "id": "q2", "scenario": {**SCENARIO, "plan": []}}
    golden = {"golden_questions": [{**QUESTION, "scenario": {**SCENARIO, "facts": {}}}, empty]}
    Path("golden.json").write_text(json.dumps(golden))
    done = spangrade("lint", "--dataset", "golden.json", "--db", "spangrade.duckdb", "--format", "json")
    found = json.loads("\n".join(done.out))
    assert [(one["code"], one["what"]) for one in found if one["code"] != "unanswered"] == [
        ("missing_facts", "the plan of golden question q1 needs facts that are missing: order"),
        ("no_goal", "the scenario of golden question q2 has no goal: its plan is empty"),
    ]
