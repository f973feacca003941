"""The six tests of the Line SDK's examples, as cases of our own: a scripted agent, and words of ours.

They are a chat, a menu of a telephone, a voice mail, a call that the agent ends, one that it does not end,
and a transfer. What would change in them beside the imports stands in docs/pytest.md: events are
in `events=`, and a turn of events alone has the text `"*"`.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from spangrade.evaluator.conversation_runner import ConversationMismatch, ConversationRunner
from spangrade.evaluator.judge import Judgement, Question
from spangrade.evaluator.turn import AgentTurn, Turn, UserTurn


@dataclass
class EndCall:
    """The agent hangs up."""


@dataclass
class TransferCall:
    target_phone_number: str


@dataclass
class DTMFOutputEvent:
    button: str


class Node:
    """An agent as those of the examples: what it yields at each of the user's messages is scripted."""

    def __init__(self, *turns: Any) -> None:
        self._turns = iter(turns)

    async def process_context(self, context: Any) -> AsyncIterator[Any]:
        for piece in next(self._turns):
            yield piece


class Mentions:
    """A judge for which `mentions X` is true of a text with X in it, and no two texts are alike."""

    name = "mentions"

    async def ask(self, question: Question) -> Judgement:
        what = question.criterion.removeprefix("mentions ")
        return Judgement(
            what != question.criterion and what in str(dict(question.material)), None, f"looked for {what}"
        )


def runner(node: Node, *expected: Turn) -> ConversationRunner:
    return ConversationRunner(node, list(expected), judge=Mentions())


async def test_a_chat_opens_as_ever_and_then_mentions_one_of_two_things() -> None:
    opener = "Hi! Did you ever talk to a voice agent?"
    node = Node([opener], ["I prefer pears, ", "if I may."])
    turns = await runner(
        node,
        UserTurn("Hi"),
        AgentTurn(opener),
        UserTurn("Pears or plums?"),
        AgentTurn(["<mentions plums>", "<mentions pears>"]),
    ).run()
    assert turns[-1].text == "I prefer pears, if I may."


MENU = "For appointments press one. For anything else press zero."


async def test_a_menu_is_answered_with_a_button_and_the_person_with_a_name() -> None:
    expected = (
        UserTurn(MENU),
        AgentTurn("*", events=[DTMFOutputEvent(button="0")]),
        UserTurn("Good afternoon, how may I help you?"),
        AgentTurn("<mentions Ada>"),
    )
    await runner(Node([DTMFOutputEvent("0")], ["This is Ada."]), *expected).run()
    with pytest.raises(ConversationMismatch) as raised:
        await runner(Node([DTMFOutputEvent("1")], ["This is Ada."]), *expected).run()
    assert [one.path for one in raised.value.similarity.mismatches] == ["turn 2.events[0].button"]


async def test_a_voice_mail_is_hung_up_on() -> None:
    expected = UserTurn("Nobody is here. Leave a message."), AgentTurn(text="*", events=[EndCall()])
    await runner(Node(["Goodbye.", EndCall()]), *expected).run()
    await runner(Node([EndCall()]), *expected).run()
    with pytest.raises(ConversationMismatch):
        await runner(Node(["My number is 5."]), *expected).run()


async def test_a_call_goes_through_its_questions_and_ends() -> None:
    asked = ["May I check your address?", "Is it 1 High Street?", "Is it snowing?", "Shall we end the call?"]
    expected: list[Turn] = []
    for user, agent in zip(["Hello?", "Yes", "Yes", "It is"], asked, strict=True):
        expected += [UserTurn(user), AgentTurn(agent)]
    expected += [UserTurn("Yes"), AgentTurn("*", events=[EndCall()])]
    script = [*([text] for text in asked), ["Goodbye.", EndCall()]]
    await runner(Node(*script), *expected).run()
    with pytest.raises(ConversationMismatch) as raised:
        await runner(Node(*script[:2], ["Is it raining?"], *script[3:]), *expected).run()
    assert [one.path for one in raised.value.similarity.mismatches] == ["turn 6.text"]


async def test_a_call_that_is_ended_where_no_event_is_expected_is_seen() -> None:
    """The example is about a refusal that must not end the call: an empty list of events says so."""
    expected = UserTurn("Hello?"), AgentTurn("*"), UserTurn("No"), AgentTurn("*", events=[])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # of sockets that earlier tests left open
        await runner(Node(["Hi."], ["Then I call again."]), *expected).run()
    with pytest.raises(ConversationMismatch) as raised:
        await runner(Node(["Hi."], ["Goodbye.", EndCall()]), *expected).run()
    assert [one.path for one in raised.value.similarity.mismatches] == ["turn 4.events"]
    with pytest.warns(UserWarning, match="does not mention the events EndCall"):
        await runner(Node(["Hi."], ["Goodbye.", EndCall()]), *expected[:3], AgentTurn("*")).run()


async def test_a_caller_is_transferred_to_the_number() -> None:
    event = TransferCall(target_phone_number="+1800")
    expected = UserTurn("A person, please"), AgentTurn(text="*", events=[event])
    await runner(Node(["One moment.", event]), *expected).run()
    with pytest.raises(ConversationMismatch) as raised:
        await runner(Node(["One moment.", TransferCall("+1900")]), *expected).run()
    assert [one.path for one in raised.value.similarity.mismatches] == [
        "turn 2.events[0].target_phone_number"
    ]
