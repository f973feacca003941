"""The names of the Line SDK, so that only the imports of its evals tests change; and the events of a turn."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spangrade import InputError
from spangrade.evaluator.conversation_runner import ConversationMismatch, ConversationRunner
from spangrade.evaluator.similarity_utils import is_similar_dict, is_similar_str, is_similar_text
from spangrade.evaluator.turn import (
    AgentTurn,
    ToolCall,
    TurnEvent,
    UserTurn,
    load_conversation_json,
    make_turn,
)


@dataclass
class EndCall:
    """An event of a voice SDK."""


@dataclass
class TransferCall:
    target: str | int
    reason: str | None = None


@dataclass
class Lookup:
    tool_name: str
    tool_args: dict[str, Any]
    result: Any


class Node:
    """An agent as a voice SDK's: it yields a text, a call with its result, and events."""

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces

    async def process_context(self, context: Any) -> AsyncIterator[Any]:
        assert context.get_latest_user_transcript_message() == "Bye"
        for piece in self.pieces:
            yield piece


def test_a_similarity_has_line_s_names() -> None:
    same, other = is_similar_str("Hello.", "hello"), is_similar_dict({"total": 7}, {"total": 8})
    assert (same.is_success, same.error) == (True, None)
    assert other.is_success is False
    assert (
        other.error == "value.total: values that are not strings must be equal\n  expected: 8\n  actual:   7"
    )
    assert is_similar_text("pears", ["apples", "*"]).is_success
    assert other.result().is_success is False


def test_turns_are_made_of_objects_and_files(tmp_path: Path) -> None:
    call = {"name": "find", "arguments": {"id": 7}, "result": None}
    objects = [
        {"role": "user", "text": "Bye"},
        {"role": "assistant", "text": ["Bye!", "*"], "tool_calls": [call], "events": ["EndCall"]},
    ]
    turns = [
        UserTurn("Bye"),
        AgentTurn(["Bye!", "*"], [ToolCall("find", {"id": 7})], events=[TurnEvent("EndCall")]),
    ]
    assert [make_turn(one) for one in objects] == turns
    (tmp_path / "c.json").write_text(json.dumps(objects))
    assert load_conversation_json(tmp_path / "c.json") == turns
    with pytest.raises(
        InputError, match=r"^turn: role: expected 'user', 'agent' or 'assistant', found 'bot'"
    ):
        make_turn({"role": "bot", "text": "Bye"})


async def test_the_agent_may_be_named_as_the_reasoning_node_and_a_note_is_shown() -> None:
    expected = [UserTurn("Bye"), AgentTurn("So long", tool_calls=[ToolCall("find")])]
    runner = ConversationRunner(
        reasoning_node=Node("So long"), expected_conversation=expected, test_note="the end of a call"
    )
    with pytest.raises(ConversationMismatch, match=r"not as expected \(the end of a call\)"):
        await runner.run()
    with pytest.raises(InputError, match="expected an agent, once"):
        ConversationRunner(expected_conversation=expected)
    with pytest.raises(InputError, match="expected an agent, once"):
        ConversationRunner(Node(), expected, reasoning_node=Node())


TRANSFER = TransferCall("+1", None)


@pytest.mark.parametrize(
    "turn",
    [
        AgentTurn("So long", events=["TransferCall", "EndCall"]),
        AgentTurn("*", events=[TRANSFER, EndCall()]),
        AgentTurn("*", events=[TurnEvent("TransferCall", {"target": "*", "reason": None}), EndCall()]),
        AgentTurn(
            "*", [ToolCall("find"), ToolCall("transfer_call", {"target": "+1"}), ToolCall("end_call", {})]
        ),
        AgentTurn("*", [ToolCall("find"), ToolCall("end_call")], events=[TRANSFER]),
    ],
)
async def test_events_are_expected_as_events_or_as_calls(turn: AgentTurn) -> None:
    pieces = ("So long", Lookup("find", {"id": 7}, "none"), TRANSFER, EndCall())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # of sockets that earlier tests left open
        *_, last = await ConversationRunner(Node(*pieces), [UserTurn("Bye"), turn]).run()
    assert isinstance(last, AgentTurn)
    assert last.events == [
        TurnEvent("TransferCall", {"target": "+1", "reason": None}),
        TurnEvent("EndCall", {}),
    ]


@pytest.mark.parametrize(
    ("events", "path"),
    [
        ([], "turn 2.events"),
        (["EndCall", "TransferCall"], "turn 2.events"),
        ([TransferCall(2), EndCall()], "turn 2.events[0].target"),
    ],
)
async def test_events_that_differ_are_a_mismatch(events: list[Any], path: str) -> None:
    runner = ConversationRunner(
        Node("So long", TRANSFER, EndCall()), [UserTurn("Bye"), AgentTurn("*", events=events)]
    )
    with pytest.raises(ConversationMismatch) as raised:
        await runner.run()
    assert [one.path for one in raised.value.similarity.mismatches] == [path]


async def test_a_turn_of_events_alone_matches_any_text_and_what_is_not_mentioned_is_reported() -> None:
    runner = ConversationRunner(Node({"type": "dtmf", "digit": 5}), [UserTurn("Bye"), AgentTurn("*")])
    with pytest.warns(UserWarning, match=r"turn 2: .* does not mention the events dtmf \{'digit': 5\}$"):
        await runner.run()
    with pytest.raises(ConversationMismatch):
        await ConversationRunner(Node(), [UserTurn("Bye"), AgentTurn("*")]).run()
