"""The messages of a turn, where a turn begins, and the steps in it."""

from __future__ import annotations

from typing import Any

import pytest
from builders import observation
from recordings import dotted, observed

from spangrade.converters.spans.messages import message_of
from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.session import Session

SHOP = observation("agent", "shop", None, (0, 20), name="shop", user_input="hi")


def ask(span_id: str, at: float, **changes: Any) -> Observation:
    return observation("llm", span_id, "shop", (at, at + 1), **changes)


def session(*observations: Observation) -> Session:
    return build_session("s1", "conversation", list(observations))


def turns(*observations: Observation) -> list[tuple[str | None, str | None]]:
    return [(turn.user_input, turn.final_response) for turn in session(*observations).turns]


@pytest.mark.parametrize(
    "placeholder",
    [
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "5d41402abc4b2a76b9719d911017c592",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "{}",
        "None",
        "<redacted>",
        "<crew.Input object at 0x7f4f10591f90>",
    ],
)
def test_an_identifier_or_a_placeholder_is_not_the_users_message(placeholder: str) -> None:
    run = SHOP._replace(user_input=placeholder)
    assert turns(run) == [(None, None)]
    assert turns(run, ask("1", 1, user_input="hi", response="ho")) == [("hi", "ho")]


@pytest.mark.parametrize("text", ["Order 777, please", "none of these", "redacted or not?", "42", "hi"])
def test_a_message_is_not_taken_for_a_placeholder(text: str) -> None:
    assert turns(SHOP._replace(user_input=text)) == [(text, None)]


@pytest.mark.parametrize(("reply", "text"), [(42, "42"), (579.5, "579.5"), (True, "true")])
def test_a_reply_that_is_a_number_or_true_is_a_text(reply: Any, text: str) -> None:
    message = message_of({"role": "assistant", "content": reply})
    assert message is not None
    assert message.text == text
    run = observed(dotted(openinference__span__kind="AGENT", output__value=text))
    assert run.response == text


def test_a_reply_that_is_a_list_is_its_json_text() -> None:
    run = observed(dotted(openinference__span__kind="AGENT", output__value='["a", 1]'))
    assert run.response == '["a",1]'


def test_a_final_text_of_blanks_is_not_the_reply_if_an_earlier_one_has_words() -> None:
    assert turns(SHOP, ask("1", 1, response="done"), ask("2", 3, response=" \n")) == [("hi", "done")]
    assert turns(SHOP, ask("1", 1, response="\n")) == [("hi", "\n")]


def test_an_agent_is_named_again_after_a_tool_that_another_agent_called() -> None:
    def agent(name: str, at: float, parent: str) -> Observation:
        return observation("agent", f"{name} {at}", parent, (at, at + 1), name=name)

    def tool(name: str, at: float, parent: str) -> Observation:
        return observation("tool", f"{name} {at}", parent, (at, at + 1), name=name)

    team = observation("agent", "team", None, (0, 20), name="Team")
    delegates = [tool("delegate", 1, "team"), tool("delegate", 5, "team")]
    finance = [agent("Finance", 2, "delegate 1"), agent("Finance", 6, "delegate 5")]
    made = session(team, *delegates, *finance)
    assert [step.name for step in made.trajectory] == ["Team", "delegate", "Finance", "delegate", "Finance"]
    # Its own tools do not come between.
    again = [agent("Team", 3, "team"), tool("look", 2, "team")]
    assert [step.name for step in session(team, *again).trajectory] == ["Team", "look"]
