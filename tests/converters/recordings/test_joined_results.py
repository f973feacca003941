"""Results find their calls, whoever wrote them and wherever they stand: in files of messages and in spans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recordings import sessions_of_file

from spangrade import Session

USER = {"role": "user", "content": "Mail Bo the report"}
ARGUMENTS = {"to": "bo"}
FUNCTION = {"name": "send_mail", "arguments": json.dumps(ARGUMENTS)}
CALL = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}]}
SENT = {"role": "tool", "tool_call_id": "c1", "content": "sent"}
REPLY = {"role": "assistant", "content": "Sent."}
MORE = {"role": "user", "content": "And Ann?"}
NO = {"role": "assistant", "content": "Who is Ann?"}
ITEM = {"type": "function_call", "id": "fc_1", "call_id": "c1", **FUNCTION}
ASKED = "This tool call requires confirmation, please approve or reject."

# By name: the messages, and the calls as (turn, output, ok, approval).
CASES: dict[str, tuple[list[dict[str, Any]], list[tuple[Any, ...]]]] = {
    "beside the user's next text, Anthropic": (
        [
            USER,
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "send_mail", "input": ARGUMENTS}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "sent"},
                    {"type": "text", "text": "And Ann?"},
                ],
            },
            NO,
        ],
        [(1, "sent", None, None)],
    ),
    "beside the user's next text, an error": (
        [
            USER,
            CALL,
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "down", "is_error": True},
                    {"type": "text", "text": "And Ann?"},
                ],
            },
            NO,
        ],
        [(1, "down", False, None)],
    ),
    "beside the user's next text, Gemini, by name": (
        [
            {"role": "user", "parts": [{"text": "Mail Bo the report"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "send_mail", "args": ARGUMENTS}}]},
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "send_mail", "response": {"done": True}}},
                    {"text": "And Ann?"},
                ],
            },
            {"role": "model", "parts": [{"text": "Who is Ann?"}]},
        ],
        [(1, {"done": True}, True, None)],
    ),
    "after the user's next text": ([USER, CALL, MORE, SENT, NO], [(1, "sent", None, None)]),
    "of each turn under one constant id": (
        [USER, CALL, SENT, REPLY, MORE, CALL, {**SENT, "content": "again"}, NO],
        [(1, "sent", None, None), (2, "again", None, None)],
    ),
    "under the item's id": (
        [USER, ITEM, {"type": "function_call_output", "call_id": "fc_1", "output": "sent"}, REPLY],
        [(1, "sent", None, None)],
    ),
    "under the item's id, in the next message": (
        [
            USER,
            {"role": "assistant", "tool_calls": [{"id": "fc_1", "call_id": "c1", "function": FUNCTION}]},
            MORE,
            {**SENT, "tool_call_id": "fc_1"},
            NO,
        ],
        [(1, "sent", None, None)],
    ),
    "under the call's id in a message of role tool": (
        [USER, ITEM, {"role": "tool", "call_id": "c1", "content": "sent"}, REPLY],
        [(1, "sent", None, None)],
    ),
    "after a person was asked": (
        [USER, CALL, {**SENT, "content": json.dumps({"error": ASKED})}, SENT, REPLY],
        [(1, "sent", None, "approved")],
    ),
    "after a graph was interrupted": (
        [USER, CALL, {**SENT, "content": "Interrupt(value='Send it?', id='9f')"}, SENT, REPLY],
        [(1, "sent", None, "approved")],
    ),
    "not there yet, while a person is asked": (
        [USER, CALL, {**SENT, "content": json.dumps({"__interrupt__": [{"value": "Send it?"}]})}],
        [(1, {"__interrupt__": [{"value": "Send it?"}]}, None, "asked")],
    ),
}


def session_of(tmp_path: Path, document: Any) -> Session:
    """Return the one session of a file."""
    file = tmp_path / "file.json"
    file.write_text(json.dumps(document))
    (session,) = sessions_of_file(file, tmp_path / "s.duckdb")
    return session


def as_spans(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the model calls of a conversation in OTLP, each a trace with all messages before it."""
    spans = []
    own = [n for n, one in enumerate(messages) if one.get("role") in ("assistant", "model") or one is ITEM]
    for number, place in enumerate(own, 1):
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": "s1",
            "gen_ai.input.messages": json.dumps(messages[:place]),
            "gen_ai.output.messages": json.dumps([messages[place]]),
        }
        spans.append(
            {
                "traceId": f"{number:032x}",
                "spanId": f"{number:016x}",
                "name": "chat",
                "startTimeUnixNano": str(number * 10**9),
                "endTimeUnixNano": str(number * 10**9 + 10**8),
                "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()],
            }
        )
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "shop"}, "spans": spans}]}]}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", ["messages", "spans"])
def test_a_result_is_that_of_its_call(name: str, form: str, tmp_path: Path) -> None:
    messages, expected = CASES[name]
    if form == "spans" and messages[-1].get("role") == "tool":
        messages = [*messages, REPLY]
    session = session_of(tmp_path, messages if form == "messages" else as_spans(messages))
    found = [(one.turn, one.output, one.ok, one.approval) for one in session.tool_interactions]
    # A span of its own, which files of messages give a call, says that a text is no failure.
    own = [
        (turn, output, True if form == "messages" and ok is None and approval != "asked" else ok, approval)
        for turn, output, ok, approval in expected
    ]
    assert (found, session.requested_calls) == (own, ())
    assert all(one.input_arguments == ARGUMENTS for one in session.tool_interactions)
