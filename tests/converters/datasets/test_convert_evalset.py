"""ADK's eval sets from and into golden questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Spangrade
from paths import HISTORY

from spangrade.converters.datasets.golden import load_golden

EVALSET = HISTORY / "cs_evalset.evalset.json"


def text(message: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": message}]}


def eval_case(**changes: Any) -> dict[str, Any]:
    turn = {
        "user_content": text("hi"),
        "final_response": text("Hello.", "model"),
        "intermediate_data": {"tool_uses": [{"name": "greet", "args": {"how": "kindly"}}]},
    }
    return {"eval_id": "c1", "conversation": [turn], "session_input": {"app_name": "shop"}} | changes


@pytest.fixture
def convert(spangrade: Spangrade, tmp_path: Path) -> Spangrade:
    """Convert a document; what it becomes is in `out.json`."""

    def converted(document: Any, *options: str) -> Done:
        (tmp_path / "in.json").write_text(json.dumps(document), encoding="utf-8")
        files = ("--input", tmp_path / "in.json", "--output", tmp_path / "out.json")
        return spangrade("convert", "evalset", *files, *options)

    return converted


def questions(tmp_path: Path) -> list[dict[str, Any]]:
    content: dict[str, Any] = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    return list(content["golden_questions"])


def camel(value: Any) -> Any:
    """A document with its keys in camelCase."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key if key in ("customer_id", "agent_name", "discount_approved") else camel_key(key): camel(item)
        for key, item in value.items()
    }


def camel_key(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(map(str.title, rest))


def test_an_eval_set_becomes_golden_questions(convert: Spangrade, tmp_path: Path) -> None:
    done = convert(json.loads(EVALSET.read_bytes()), "--agent", "customer_service_agent")
    assert done == (0, [f"2 questions added to {tmp_path / 'out.json'}"], [])
    match = {"type": "percentage", "reason": "price match"}
    assert questions(tmp_path) == [
        {
            "id": "discount_then_return",
            "user_inputs": [
                "Hi, I'm customer C-1001. What is in my cart?",
                "A competitor is cheaper. Can I get 50% off?",
                "Forget it. I want to return order 777 instead.",
            ],
            "agents_evaluated": ["customer_service_agent"],
            "reference_data": {
                "reference_tool_interactions": [
                    {"tool_name": "get_cart", "input_arguments": {"customer_id": "C-1001"}},
                    {"tool_name": "approve_discount", "input_arguments": {"value": 50.0, **match}},
                    {"tool_name": "approve_discount", "input_arguments": {"value": 10.0, **match}},
                    {"tool_name": "get_cart", "input_arguments": {"customer_id": "C-1001"}},
                    {"tool_name": "transfer_to_agent", "input_arguments": {"agent_name": "returns_agent"}},
                ],
                "reference_trajectory": ["customer_service_agent", "returns_agent"],
                "reference_state_variables": {"discount_approved": 10.0},
                "reference_response": "This is the returns agent. I have opened a return for order 777.",
            },
        },
        {
            "id": "cart_only_wrong_expectation",
            "user_inputs": ["Hi, I'm customer C-1001. What is in my cart?"],
            "agents_evaluated": ["customer_service_agent"],
            "reference_data": {
                "reference_tool_interactions": [
                    {
                        "tool_name": "approve_discount",
                        "input_arguments": {"value": 5.0, "type": "percentage", "reason": "loyalty"},
                    }
                ],
                "reference_trajectory": ["customer_service_agent"],
                "reference_response": "Your cart has 2 items (potting soil, fertilizer), total $129.90.",
            },
        },
    ]


def test_camel_case_means_the_same(convert: Spangrade, tmp_path: Path) -> None:
    document = json.loads(EVALSET.read_bytes())
    convert(document, "--agent", "a")
    snake = questions(tmp_path)
    (tmp_path / "out.json").unlink()
    assert convert(camel(document), "--agent", "a").code == 0
    assert questions(tmp_path) == snake


def test_without_an_agent_the_app_is_named_and_no_trajectory_is_expected(
    convert: Spangrade, tmp_path: Path
) -> None:
    convert({"eval_cases": [eval_case()]})
    (made,) = questions(tmp_path)
    assert made["agents_evaluated"] == ["shop"]
    assert made["reference_data"] == {
        "reference_tool_interactions": [{"tool_name": "greet", "input_arguments": {"how": "kindly"}}],
        "reference_response": "Hello.",
    }


def test_calls_may_be_in_events(convert: Spangrade, tmp_path: Path) -> None:
    call = {"function_call": {"name": "greet", "args": {}}}
    events = [{"author": "a", "content": {"parts": [{"text": "well"}, call]}}, {"content": None}]
    turn = {"user_content": text("hi"), "intermediate_data": {"invocation_events": events}}
    convert({"eval_cases": [eval_case(conversation=[turn])]})
    (made,) = questions(tmp_path)
    assert made["reference_data"] == {
        "reference_tool_interactions": [{"tool_name": "greet", "input_arguments": {}}]
    }


def test_what_cannot_be_used_is_named_and_the_rest_converted(convert: Spangrade, tmp_path: Path) -> None:
    bad_calls = {"tool_uses": [{"args": {}}, {"name": "t", "args": "x"}, {"name": "u"}]}
    cases = [
        eval_case(),
        "c2",
        eval_case(eval_id=None),
        eval_case(eval_id="c3", conversation=None),
        eval_case(eval_id="c4", conversation=[{"final_response": text("x")}]),
        eval_case(eval_id="c5", session_input=None),
        eval_case(),
        eval_case(eval_id="c6", conversation=[{"user_content": text("hey"), "intermediate_data": bad_calls}]),
    ]
    done = convert({"eval_cases": cases})
    at, out = f"spangrade: {tmp_path / 'in.json'}: eval_cases", tmp_path / "out.json"
    assert done == (
        2,
        [f"2 questions added to {out}; 8 left out"],
        [
            f"{at}[1]: not an object",
            f"{at}[2].eval_id: missing",
            f'{at}[3] (id "c3").conversation: no turns; a scenario has no user messages',
            f'{at}[4] (id "c4").conversation: a turn whose user_content has no text',
            f'{at}[7] (id "c6").conversation[0].intermediate_data: a call without a name',
            f'{at}[7] (id "c6").conversation[0].intermediate_data: the args of t are not an object',
            f'spangrade: {out}: id "c5": agents_evaluated: must not be empty',
            f'spangrade: {out}: id "c1": another question has it',
        ],
    )
    assert [question["id"] for question in questions(tmp_path)] == ["c1", "c6"]


def test_golden_questions_become_an_eval_set_and_come_back(convert: Spangrade, tmp_path: Path) -> None:
    golden = {
        "golden_questions": [
            {
                "id": "q1",
                "user_inputs": ["hi", "bye"],
                "agents_evaluated": ["shop"],
                "reference_data": {
                    "reference_tool_interactions": [{"tool_name": "greet", "input_arguments": {"a": 1}}],
                    "reference_trajectory": ["shop"],
                    "reference_state_variables": {"mood": "good"},
                    "reference_response": "Bye.",
                },
            }
        ]
    }
    done = convert(golden)
    where = "the turns of the expected calls are unknown: all calls are in the last turn"
    assert done == (0, [f"1 eval cases written to {tmp_path / 'out.json'}"], [f"spangrade: q1: {where}"])
    evalset = json.loads((tmp_path / "out.json").read_bytes())
    nothing = {"tool_uses": [], "tool_responses": [], "intermediate_responses": []}
    assert evalset == {
        "eval_set_id": "out",
        "name": "out",
        "eval_cases": [
            {
                "eval_id": "q1",
                "conversation": [
                    {
                        "invocation_id": "q1-1",
                        "user_content": text("hi"),
                        "intermediate_data": nothing,
                    },
                    {
                        "invocation_id": "q1-2",
                        "user_content": text("bye"),
                        "intermediate_data": nothing | {"tool_uses": [{"name": "greet", "args": {"a": 1}}]},
                        "final_response": text("Bye.", "model"),
                    },
                ],
                "session_input": {"app_name": "shop", "user_id": "user", "state": {}},
                "final_session_state": {"mood": "good"},
            }
        ],
    }
    (tmp_path / "out.json").unlink()
    convert(evalset, "--agent", "shop")
    assert questions(tmp_path) == golden["golden_questions"]
    load_golden(tmp_path / "out.json")


def test_an_eval_set_is_never_written_over_a_file(convert: Spangrade, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("mine")
    golden = {"id": "q1", "user_inputs": ["hi"], "agents_evaluated": ["a"], "reference_data": {}}
    done = convert({"golden_questions": [golden]})
    message = (
        f"spangrade: {tmp_path / 'out.json'}: exists already, so it is left unchanged; name another --output"
    )
    assert (done, (tmp_path / "out.json").read_text()) == ((2, [], [message]), "mine")
