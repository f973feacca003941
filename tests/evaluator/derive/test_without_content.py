"""Where texts are not recorded, each run is a turn; what a run goes on with is told by the ids of calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recordings import sessions

from spangrade.tracer.span import Span

Message = dict[str, Any]


def _genai(text: Callable[[], Message]) -> Callable[[str, list[Message]], dict[str, Any]]:
    def attributes(direction: str, messages: list[Message]) -> dict[str, Any]:
        parts = [{"role": m["role"], "parts": [m["part"] or text()]} for m in messages]
        return {f"gen_ai.{direction}.messages": json.dumps(parts)}

    return attributes


def _providers(content: dict[str, Any]) -> Callable[[str, list[Message]], dict[str, Any]]:
    def attributes(direction: str, messages: list[Message]) -> dict[str, Any]:
        made = []
        for m in messages:
            part = m["part"]
            if part is None:
                made.append({"role": m["role"], **content})
            elif part["type"] == "tool_call":
                call = {"id": part["id"], "type": "function", "function": {"name": part["name"]}}
                made.append({"role": "assistant", **content, "tool_calls": [call]})
            else:
                made.append({"role": "tool", "tool_call_id": part["id"], **content})
        return {f"gen_ai.{direction}.messages": json.dumps(made)}

    return attributes


def _openinference(direction: str, messages: list[Message]) -> dict[str, Any]:
    flat: dict[str, Any] = {"openinference.span.kind": "LLM"}
    for number, m in enumerate(messages):
        at, part = f"llm.{direction}_messages.{number}.message", m["part"]
        flat[f"{at}.role"] = "tool" if part and part["type"] != "tool_call" else m["role"]
        if part and part["type"] == "tool_call":
            flat[f"{at}.tool_calls.0.tool_call.id"] = part["id"]
            flat[f"{at}.tool_calls.0.tool_call.function.name"] = part["name"]
        elif part:
            flat[f"{at}.tool_call_id"] = part["id"]
    return flat


WRITERS: dict[str, Callable[[str, list[Message]], dict[str, Any]]] = {
    "parts without content": _genai(lambda: {"type": "text"}),
    "content of null": _genai(lambda: {"type": "text", "content": None}),
    "a mask": _genai(lambda: {"type": "text", "content": "[REDACTED]"}),
    "no content": _providers({}),
    "null": _providers({"content": None}),
    "another mask": _providers({"content": "__REDACTED__"}),
    "flattened": _openinference,
    "no messages": lambda *_: {},
}
SILENT: Message = {"part": None}


def run(
    turn: int, writer: str, history: list[Message], *, result: bool = True
) -> tuple[list[Span], list[Message]]:
    """The spans of a run with a call of a tool, and the history after it; without `result` it only asks."""
    spans = []
    call_id = f"c{turn}"
    asked = {"role": "assistant", "part": {"type": "tool_call", "id": call_id, "name": "look"}}
    answered = {"role": "user", "part": {"type": "tool_call_response", "id": call_id, "name": "look"}}
    reply = {"role": "assistant", **SILENT}
    begun = [*history, {"role": "user", **SILENT}]
    steps = [(begun, asked), ([*begun, asked, answered], reply)][: 2 if result else 1]

    def span(number: int, name: str, start: int, end: int, **fields: Any) -> None:
        given = {"gen_ai.conversation.id": "s1", **fields}
        parent = None if number == 1 else f"{1:016x}"
        ids = f"{turn:032x}", f"{number:016x}", parent
        at = turn * 10_000
        spans.append(Span(*ids, name, "INTERNAL", at + start, at + end, attributes=given))

    span(
        1,
        "invoke_agent desk",
        0,
        1_000,
        **{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"},
    )
    for number, (request, answer) in enumerate(steps):
        messages = WRITERS[writer]("input", request) | WRITERS[writer]("output", [answer])
        call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1", **messages}
        span(2 + number, "chat", 100 + 300 * number, 200 + 300 * number, **call)
    if result:
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
        span(9, "execute_tool look", 250, 300, **tool, **{"gen_ai.tool.call.id": call_id})
    return spans, [*steps[-1][0], steps[-1][1]]


@pytest.mark.parametrize("writer", WRITERS)
def test_each_run_is_a_turn_where_texts_are_not_recorded(writer: str, tmp_path: Path) -> None:
    spans: list[Span] = []
    history: list[Message] = []
    for turn in range(1, 5):
        more, history = run(turn, writer, history)
        spans += more
    (session,) = sessions(spans, tmp_path / "s.duckdb")
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == [(None, None)] * 4
    assert [call.turn for call in session.tool_interactions] == [1, 2, 3, 4]


@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "no messages"])
def test_a_run_that_takes_up_an_unanswered_call_goes_on_with_its_turn(writer: str, tmp_path: Path) -> None:
    asked, history = run(1, writer, [], result=False)
    answered = {"role": "user", "part": {"type": "tool_call_response", "id": "c1", "name": "look"}}
    reply = {"role": "assistant", **SILENT}
    messages = WRITERS[writer]("input", [*history, answered]) | WRITERS[writer]("output", [reply])
    resumed, _ = run(2, "no messages", [])
    again = [
        span._replace(attributes={**span.attributes, **messages}) if span.name == "chat" else span
        for span in resumed
    ]
    of_id = [
        span._replace(attributes={**span.attributes, "gen_ai.tool.call.id": "c1"})
        if "look" in span.name
        else span
        for span in resumed
    ]
    for number, later in enumerate((again, of_id)):
        (session,) = sessions([*asked, *later], tmp_path / f"{number}.duckdb")
        assert len(session.turns) == 1
    (session,) = sessions([*asked, *resumed], tmp_path / "other.duckdb")  # it executes another call
    assert len(session.turns) == 2
