"""ADK's eval sets from and into golden questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Spangrade
from paths import HISTORY

from spangrade.converters.datasets.formats import read_dataset
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
        return spangrade("convert", tmp_path / "in.json", "--output", tmp_path / "out.json", *options)

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
    done = convert(json.loads(EVALSET.read_bytes()), "--agent-name", "customer_service_agent")
    at = f'spangrade: {tmp_path / "in.json"}: eval_cases[0] (id "discount_then_return")'
    early = "2 expected responses before the last turn are left out: a question expects the last one"
    assert done == (0, [f"2 questions added to {tmp_path / 'out.json'}"], [f"{at}: {early}"])
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
            "session_input": {"app_name": "cs_agent", "user_id": "user-42", "state": {"locale": "en-US"}},
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
    convert(document, "--agent-name", "a")
    snake = questions(tmp_path)
    (tmp_path / "out.json").unlink()
    assert convert(camel(document), "--agent-name", "a").code == 0
    assert questions(tmp_path) == snake


@pytest.mark.parametrize("form", ["snake_case", "camelCase", "old"])
def test_an_eval_set_is_recognized_by_its_content(
    convert: Spangrade, spangrade: Spangrade, tmp_path: Path, form: str
) -> None:
    turn = {
        "query": "hi",
        "expected_tool_use": [{"tool_name": "greet", "tool_input": {}}],
        "reference": "Hello.",
    }
    document: Any = {"eval_set_id": "s", "eval_cases": [eval_case()]}
    if form == "old":
        document = [{"name": "c1", "data": [turn], "initial_session": {"app_name": "shop"}}]
    assert convert(camel(document) if form == "camelCase" else document).code == 0
    expected = questions(tmp_path)
    (tmp_path / "out.json").unlink()
    assert spangrade("convert", tmp_path / "in.json", "-o", tmp_path / "out.json").code == 0
    assert questions(tmp_path) == expected


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
            f'{at}[3] (id "c3").conversation: no turns, and no conversation_scenario',
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
    assert done == (0, [f"1 eval case written to {tmp_path / 'out.json'}"], [f"spangrade: q1: {where}"])
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
    convert(evalset, "--agent-name", "shop")
    assert questions(tmp_path) == golden["golden_questions"]
    load_golden(tmp_path / "out.json")


def test_rubrics_and_the_initial_state_are_kept(convert: Spangrade, tmp_path: Path) -> None:
    def rubric(text: str) -> dict[str, Any]:
        return {"rubric_id": "r", "rubric_content": {"text_property": text}}

    case = eval_case(
        rubrics=[rubric("It is polite."), {"rubric_content": {}}],
        session_input={"app_name": "shop", "user_id": "u", "state": {"cart": [1]}},
    )
    second = {"user_content": text("bye"), "rubrics": [rubric("It says goodbye.")]}
    two = case | {"eval_id": "c2", "rubrics": None, "conversation": [*case["conversation"], second]}
    done = convert({"eval_cases": [case, two]}, "--agent-name", "shop")
    at = f"spangrade: {tmp_path / 'in.json'}: eval_cases"
    assert (done.code, done.err[0]) == (2, f'{at}[0] (id "c1").rubrics[1]: a rubric without a text')
    one, other = questions(tmp_path)
    assert one["reference_data"]["rubrics"] == ["It is polite."]
    assert other["reference_data"]["rubrics"] == ["Turn 2: It says goodbye."]
    assert one["session_input"] == {"app_name": "shop", "user_id": "u", "state": {"cart": [1]}}
    (tmp_path / "back").mkdir()
    golden = json.loads((tmp_path / "out.json").read_bytes())
    (tmp_path / "out.json").unlink()
    convert({"golden_questions": golden["golden_questions"][:1]})
    (back,) = json.loads((tmp_path / "out.json").read_bytes())["eval_cases"]
    assert back["rubrics"] == [
        {"rubric_id": "c1-rubric-1", "rubric_content": {"text_property": "It is polite."}}
    ]
    assert back["session_input"] == one["session_input"]


def test_the_status_and_the_output_of_a_call_are_kept(convert: Spangrade, tmp_path: Path) -> None:
    calls = [
        {"tool_name": "pay", "input_arguments": {"sum": 1}, "status": "error"},
        {"tool_name": "find", "input_arguments": {}, "output": {"hits": 2}},
        {"tool_name": "find", "input_arguments": {}, "output": "nothing", "status": "ok"},
        {"tool_name": "log", "input_arguments": {}},
    ]
    golden = {
        "id": "q1",
        "user_inputs": ["hi"],
        "agents_evaluated": ["shop"],
        "reference_data": {"reference_tool_interactions": calls, "reference_trajectory": ["shop"]},
    }
    assert convert({"golden_questions": [golden]}).err == []
    evalset = json.loads((tmp_path / "out.json").read_bytes())
    (turn,) = evalset["eval_cases"][0]["conversation"]
    assert turn["intermediate_data"]["tool_responses"] == [
        {"id": "q1-call-1", "name": "pay", "response": {"status": "error"}},
        {"id": "q1-call-2", "name": "find", "response": {"hits": 2}},
        {"id": "q1-call-3", "name": "find", "response": {"result": "nothing", "status": "ok"}},
    ]
    (tmp_path / "out.json").unlink()
    assert convert(evalset, "--agent-name", "shop").err == []
    assert questions(tmp_path) == [golden]


def test_results_are_those_of_their_calls(convert: Spangrade, tmp_path: Path) -> None:
    data = {
        "tool_uses": [{"id": "1", "name": "find", "args": {}}, {"name": "pay", "args": {}}],
        "tool_responses": [
            {"name": "pay", "response": {"status": "ok", "sum": 3}},
            {"id": "1", "name": "find", "response": {"result": [1]}},
            {"id": "2", "name": "log", "response": {}},
        ],
    }
    turn = {"user_content": text("hi"), "intermediate_data": data, "rubrics": 7}
    done = convert({"eval_cases": [eval_case(conversation=[turn])]})
    at = f'spangrade: {tmp_path / "in.json"}: eval_cases[0] (id "c1").conversation[0]'
    assert (done.code, done.err) == (
        2,
        [f"{at}.intermediate_data: tool responses without a call: log", f"{at}.rubrics: not a list"],
    )
    (made,) = questions(tmp_path)
    assert made["reference_data"]["reference_tool_interactions"] == [
        {"tool_name": "find", "input_arguments": {}, "output": [1]},
        {
            "tool_name": "pay",
            "input_arguments": {},
            "status": "ok",
            "output": {"status": "ok", "sum": 3},
        },
    ]


def test_what_an_eval_set_has_no_place_for_is_named(convert: Spangrade, tmp_path: Path) -> None:
    golden = {
        "id": "q1",
        "user_inputs": ["hi"],
        "agents_evaluated": ["shop", "cashier"],
        "metadata": {"topic": "x"},
        "reference_data": {"reference_trajectory": ["shop", "cashier"], "tone": "kind", "max_cost_usd": 1},
    }
    lost = "metadata, max_cost_usd, agents_evaluated beyond shop, reference_trajectory, reference_data.tone"
    text_of = f"spangrade: q1: left out, an eval set has no place for it: {lost}"
    assert convert({"golden_questions": [golden]}).err == [text_of]


def test_the_old_list_form_is_converted_and_graded(convert: Spangrade, tmp_path: Path) -> None:
    old = [
        {
            "name": "c1",
            "data": [
                {"query": "", "reference": "Welcome!"},
                {
                    "query": "hi",
                    "expected_tool_use": [
                        {"tool_name": "greet", "tool_input": {"how": "kindly"}, "mock_tool_output": "x"}
                    ],
                    "expected_intermediate_agent_responses": [{"author": "a", "text": "well"}],
                    "reference": "Hello.",
                },
            ],
            "initial_session": {"app_name": "shop", "user_id": "u", "state": {"n": 1}},
        },
        {"data": []},
        7,
    ]
    done = convert(old, "--agent-name", "shop")
    at = f"spangrade: {tmp_path / 'in.json'}: "
    assert done == (
        2,
        [f"1 question added to {tmp_path / 'out.json'}; 2 left out"],
        [
            (
                f'{at}[0] (id "c1").conversation: it opens with the agent: this turn is left out, '
                "a question begins with the user"
            ),
            f'{at}[0] (id "c1"): the expected intermediate responses are left out',
            f'{at}[0] (id "c1"): the mocked outputs of tools are left out',
            f"{at}[1].name: missing",
            f"{at}[2]: not an object",
        ],
    )
    assert questions(tmp_path) == [
        {
            "id": "c1",
            "user_inputs": ["hi"],
            "agents_evaluated": ["shop"],
            "reference_data": {
                "reference_tool_interactions": [{"tool_name": "greet", "input_arguments": {"how": "kindly"}}],
                "reference_trajectory": ["shop"],
                "reference_response": "Hello.",
            },
            "session_input": {"app_name": "shop", "user_id": "u", "state": {"n": 1}},
        }
    ]
    assert [one.id for one in read_dataset(tmp_path / "in.json").questions.golden_questions] == ["c1"]


def test_a_conversation_log_names_no_agent(convert: Spangrade, tmp_path: Path) -> None:
    hint = "a conversation log names no agent: expected --agent-name NAME"
    done = convert([{"query": "hi"}])
    assert (done.code, done.err) == (2, [f"spangrade: {tmp_path / 'in.json'}: {hint}"])


def test_an_eval_set_is_never_written_over_a_file(convert: Spangrade, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("mine")
    golden = {"id": "q1", "user_inputs": ["hi"], "agents_evaluated": ["a"], "reference_data": {}}
    done = convert({"golden_questions": [golden]})
    message = (
        f"spangrade: {tmp_path / 'out.json'}: exists already, so it is left unchanged; name another --output"
    )
    assert (done, (tmp_path / "out.json").read_text()) == ((2, [], [message]), "mine")
