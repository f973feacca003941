"""Conversations as people write them, in Python and in files."""

import json
import re
from pathlib import Path

import pytest
from paths import ROOT
from pydantic import ValidationError

from spangrade import InputError
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.judge import Judgement
from spangrade.evaluator.turn import (
    AgentTurn,
    Conversation,
    ToolCall,
    UserTurn,
    check_conversation,
    load_conversation,
)

# The usage example of the document.
WEATHER = [
    UserTurn(text="What's the weather like in San Francisco?"),
    AgentTurn(
        text="<mentions current weather conditions>",
        tool_calls=[
            ToolCall(
                name="get_weather",
                arguments={"location": "San Francisco", "units": "fahrenheit"},
                result={"temperature": None, "condition": "*"},
            )
        ],
    ),
    UserTurn(text="What about tomorrow?"),
    AgentTurn(
        text="*",  # Accept any response about tomorrow's weather
        tool_calls=[
            ToolCall(
                name="get_weather",
                arguments={"location": "San Francisco", "forecast": "tomorrow"},
                result={"temperature": None, "condition": "*"},
            )
        ],
    ),
]

WEATHER_YAML = """
- {role: user, text: "What's the weather like in San Francisco?"}
- role: agent
  text: <mentions current weather conditions>
  tool_calls:
    - name: get_weather
      arguments: {location: San Francisco, units: fahrenheit}
      result: {temperature: null, condition: "*"}
- {role: user, text: "What about tomorrow?"}
- role: agent
  text: "*"
  tool_calls:
    - name: get_weather
      arguments: {location: San Francisco, forecast: tomorrow}
      result: {temperature: null, condition: "*"}
"""

USER = {"role": "user", "text": "Hi"}
AGENT = {"role": "agent", "text": "Hello"}


class Affirmative:
    """A judge that says yes to everything."""

    name = "affirmative"

    def __init__(self):
        self.criteria = []

    async def ask(self, question):
        self.criteria.append(question.criterion)
        return Judgement(True, 1.0, "yes")


def _write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_the_documents_example_is_a_conversation():
    check_conversation(WEATHER)


def test_what_an_agent_turn_does_not_name_is_none_and_not_an_empty_expectation():
    assert AgentTurn(text="*") == AgentTurn(text="*", tool_calls=None, test_note=None)
    assert AgentTurn(text="*") != AgentTurn(text="*", tool_calls=[])
    assert ToolCall("t") == ToolCall(name="t", arguments=None, result=None)
    assert ToolCall("t") != ToolCall("t", arguments={})


def test_an_agent_turn_takes_alternatives():
    """Match different responses: `AgentTurn(text=["I can say hello", "<mentions how are you>"])`"""
    turn = AgentTurn(text=["I can say hello", "<mentions how are you>"])
    assert turn.text == ["I can say hello", "<mentions how are you>"]


@pytest.mark.parametrize(
    "write",
    [
        lambda: AgentTurn(text=[]),
        lambda: AgentTurn(text=5),
        lambda: AgentTurn(text="*", tool_cals=[]),
        lambda: ToolCall(name=""),
        lambda: ToolCall(name="t", arguments={1: 2}),
        lambda: ToolCall(name="t", result=object()),
        lambda: UserTurn(text=None),
    ],
)
def test_a_turn_of_another_shape_is_refused(write):
    with pytest.raises(ValidationError):
        write()


def test_turns_are_values():
    with pytest.raises(AttributeError):
        UserTurn("Hi").text = "Bye"


def test_a_json_file_of_turns_is_a_conversation(tmp_path):
    path = _write(tmp_path / "c.json", [USER, AGENT | {"tool_calls": [{"name": "t", "result": [1, None]}]}])
    turns = [UserTurn("Hi"), AgentTurn("Hello", tool_calls=[ToolCall("t", result=[1, None])])]
    assert load_conversation(path) == Conversation(turns)


def test_a_json_file_may_hold_an_initial_agent_message_and_notes(tmp_path):
    content = {
        "initial_agent_message": "How can I help?",
        "test_note": "greeting",
        "turns": [USER | {"test_note": "short"}, AGENT | {"text": ["Hello", "<greets>"], "test_note": "any"}],
    }
    assert load_conversation(_write(tmp_path / "c.json", content)) == Conversation(
        turns=[UserTurn("Hi", test_note="short"), AgentTurn(["Hello", "<greets>"], test_note="any")],
        initial_agent_message="How can I help?",
        test_note="greeting",
    )


def test_the_file_of_the_page_is_a_conversation_to_hold(tmp_path):
    page = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```yaml.*?\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    conversation = load_conversation(_write(tmp_path / "refund.yaml", block))

    def agent(text):
        calls = [ToolCall("log_in", {}), ToolCall("find_customer", {}, {"orders": [{"id": 7}, "A-1"]})]
        return AgentTurn("<asks for the order number>", calls)

    judge = Affirmative()
    turns = ConversationRunner(agent, conversation, judge=judge).run_sync()
    assert [type(turn).__name__ for turn in turns] == ["AgentTurn", "UserTurn", "AgentTurn"]
    assert turns[0].text == "Hello, this is the shop."
    assert judge.criteria == ["asks for the order number"]


def test_an_agents_turn_may_have_the_role_assistant_and_open_the_conversation(tmp_path):
    opening, answer = AGENT | {"role": "assistant"}, AGENT | {"role": "assistant", "text": "*"}
    turns = [AgentTurn("Hello"), UserTurn("Hi"), AgentTurn("*")]
    assert load_conversation(_write(tmp_path / "c.json", [opening, USER, answer])) == Conversation(turns)


def test_a_file_may_allow_calls_beyond_the_expected_ones(tmp_path):
    answer = AGENT | {"tool_calls": [{"name": "look"}], "other_calls": True}
    expected = AgentTurn("Hello", [ToolCall("look")], other_calls=True)
    assert load_conversation(_write(tmp_path / "c.json", [USER, answer])).turns[1] == expected


def test_what_is_not_a_turn_is_refused():
    with pytest.raises(InputError, match="turn 2 is of type str, expected a UserTurn or an AgentTurn"):
        check_conversation([UserTurn("Hi"), "Hello"])


def test_the_long_names_of_golden_files_are_those_of_a_call_too(tmp_path):
    call = {"tool_name": "find", "input_arguments": {"id": 1}, "output": "x"}
    turns = [{"role": "user", "text": "Hi"}, {"role": "agent", "text": "*", "tool_calls": [call]}]
    (_, made) = load_conversation(_write(tmp_path / "c.json", json.dumps(turns))).turns
    assert made.tool_calls == [ToolCall("find", {"id": 1}, "x")]
    turns[1]["tool_calls"] = [{**call, "name": "find"}]
    with pytest.raises(InputError, match=r"turn 2 \(agent\): .*tool_name"):
        load_conversation(_write(tmp_path / "d.json", json.dumps(turns)))


def test_a_yaml_file_holds_the_documents_example(tmp_path):
    pytest.importorskip("yaml")
    assert load_conversation(_write(tmp_path / "c.yaml", WEATHER_YAML)) == Conversation(WEATHER)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([USER, USER], "turn 2 is a UserTurn, as the turn before it is: turns alternate"),
        ([USER, AGENT, AGENT], "turn 3 is an AgentTurn, as the turn before it is: turns alternate"),
        ([AGENT], "there is no UserTurn, so the agent would not run"),
        ([AGENT, USER], "turn 2, the last, is a UserTurn; end with the expected AgentTurn"),
        (
            [USER, AGENT, USER],
            "turn 3, the last, is a UserTurn; end with the expected AgentTurn",
        ),
        ([], "there are no turns; write a UserTurn and the expected AgentTurn"),
        ([USER, AGENT | {"txt": "x"}], "turn 2 (agent): txt: Unexpected keyword argument, found 'x'"),
        (
            [USER, AGENT | {"tool_calls": [{"arguments": {}}]}],
            "turn 2 (agent): tool_calls.0.name: Field required",
        ),
        ([USER, {"role": "bot"}], "turn 2: role: expected 'user', 'agent' or 'assistant', found 'bot'"),
        ([USER, "Hello"], "turn 2: expected an object with 'role' and 'text', found 'Hello'"),
        ("Hello", "expected a list of turns, or an object with a list of them under 'turns'"),
        ({"turns": 1}, "expected a list of turns, or an object with a list of them under 'turns'"),
        (
            {"turns": [USER, AGENT], "note": "x"},
            "unknown key 'note'; known: turns, initial_agent_message, test_note",
        ),
        (
            {"turns": [USER, AGENT], "initial_agent_message": 3},
            "initial_agent_message: Input should be a valid string, found 3",
        ),
    ],
)
def test_a_file_that_is_no_conversation_is_refused_with_its_place(tmp_path, content, message):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as refused:
        load_conversation(path)
    assert str(refused.value) == f"{path}: {message}"


def test_yaml_has_the_values_of_json(tmp_path):
    turn = "- {role: agent, text: x, tool_calls: [{name: t, arguments: {day: 2025-01-02, ok: no}}]}"
    path = _write(tmp_path / "c.yml", f"- {{role: user, text: x}}\n{turn}\n")
    assert load_conversation(path).turns[1].tool_calls == [ToolCall("t", {"day": "2025-01-02", "ok": "no"})]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.json", "[", "not JSON: line 1, column 2: unexpected end of data"),
        ("c.json", "[" * 100_000, "not JSON: line 1, column 1026: depth limit exceeded"),
        ("c.txt", "[]", r"expected a file that ends in \.json, \.yaml or \.yml"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_refused(tmp_path, name, content, message):
    path = _write(tmp_path / name, content)
    with pytest.raises(InputError, match=message) as refused:
        load_conversation(path)
    assert str(refused.value).startswith(f"{path}: ")


@pytest.mark.parametrize("content", ["a: [", "!!python/object/apply:os.system [ls]", "{[1]: 2}"])
def test_yaml_that_is_broken_or_runs_code_is_refused_in_one_line(tmp_path, content):
    pytest.importorskip("yaml")
    path = _write(tmp_path / "c.yaml", content)
    with pytest.raises(InputError) as refused:
        load_conversation(path)
    assert str(refused.value).startswith(f"{path}: not YAML: ")
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_conversation(tmp_path / "none.json")
