"""A run over several traces without parents: a step goes on with a turn, or a new message begins one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recordings import sessions

from spangrade.tracer.span import Span

USER, PLAN, AGAIN = ("user", "hi"), ("assistant", "plan"), ("assistant", "done")
CALL, RESULT = ("call", "c1"), ("result", "c1")
TOOL: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}


def messages(said: list[tuple[str, str]]) -> str:
    """Return messages as the conventions record them; `call` and `result` have an id in place of a text."""
    parts = {
        "call": lambda one: {"type": "tool_call", "id": one, "name": "look", "arguments": {}},
        "result": lambda one: {"type": "tool_call_response", "id": one, "response": "ok"},
    }
    roles = {"call": "assistant", "result": "tool"}
    return json.dumps(
        [
            {
                "role": roles.get(role, role),
                "parts": [parts.get(role, lambda t: {"type": "text", "content": t})(one)],
            }
            for role, one in said
        ]
    )


def chat(request: list[tuple[str, str]], *answer: tuple[str, str]) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": messages(request),
        "gen_ai.output.messages": messages(list(answer)),
    }


@pytest.mark.parametrize(
    ("steps", "turns"),
    [
        ([chat([USER], CALL), TOOL, chat([USER, CALL, RESULT], AGAIN)], [("hi", "done")]),
        ([chat([USER], PLAN), chat([USER, PLAN], AGAIN)], [("hi", "done")]),
        ([chat([USER], PLAN), chat([USER, PLAN], CALL), TOOL], [("hi", None)]),
        ([chat([USER], PLAN), chat([USER, PLAN, USER], AGAIN)], [("hi", "plan"), ("hi", "done")]),
        (
            [chat([USER], PLAN), chat([USER, PLAN, ("user", "go on")], AGAIN)],
            [("hi", "plan"), ("go on", "done")],
        ),
        ([chat([USER], PLAN), chat([USER], AGAIN)], [("hi", "plan"), ("hi", "done")]),
        # The beginning of an answer that the client gives, and not the model's last one.
        ([chat([USER], PLAN), chat([USER, ("assistant", "{")], AGAIN)], [("hi", "plan"), ("hi", "done")]),
        ([TOOL, chat([USER], AGAIN)], [("hi", "done")]),
    ],
)
def test_a_step_whose_history_holds_the_last_one_goes_on(
    steps: list[dict[str, Any]], turns: list[tuple[str, str | None]], tmp_path: Path
) -> None:
    spans = [
        Span(
            f"{n:032x}",
            f"{n:016x}",
            None,
            "step",
            "INTERNAL",
            n * 10,
            n * 10 + 5,
            attributes={"gen_ai.conversation.id": "c", **step},
        )
        for n, step in enumerate(steps, 1)
    ]
    (session,) = sessions(spans, tmp_path / "s.duckdb")
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == turns
