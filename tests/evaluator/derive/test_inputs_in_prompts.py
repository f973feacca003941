"""The only text that the outermost run was given is the user's message where a model's prompt contains it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recordings import sessions

from spangrade.evaluator.session import Session
from spangrade.tracer.span import Span

PROMPT = "[[ ## question ## ]]\nWhere is A-17?\n\nRespond with the fields."


def derived(
    given: Any, db: Path, *, prompt: str = PROMPT, returned: Any = None, reply: str = "Hm."
) -> Session:
    run: dict[str, Any] = {"openinference.span.kind": "CHAIN", "input.value": json.dumps(given)}
    if returned is not None:
        run["output.value"] = json.dumps(returned)
    call = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": prompt,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": reply,
    }
    tool = {"openinference.span.kind": "TOOL", "tool.name": "find", "output.value": "{}"}
    spans = [
        Span("a" * 32, "1" * 16, None, "ReAct.forward", "INTERNAL", 0, 100, attributes=run),
        Span("a" * 32, "2" * 16, "1" * 16, "LM.__call__", "INTERNAL", 10, 20, attributes=call),
        Span("a" * 32, "3" * 16, "1" * 16, "find", "INTERNAL", 30, 40, attributes=tool),
    ]
    (session,) = sessions(spans, db)
    return session


@pytest.mark.parametrize(
    "given",
    [
        {"input_args": {"question": "Where is A-17?"}},
        {"kwargs": {"inputs": {"ask": "Where is A-17?", "k": 3}}},
        {"args": [], "kwargs": {"ask": "Where is A-17?", "strict": True}},
        {"batch": [{"ask": "Where is A-17?"}]},
    ],
)
def test_the_only_text_of_a_run_is_the_users_message_where_a_prompt_has_it(
    given: Any, tmp_path: Path
) -> None:
    assert derived(given, tmp_path / "s.duckdb").turns[0].user_input == "Where is A-17?"


@pytest.mark.parametrize(
    ("given", "prompt"),
    [
        ({"input_args": {"ask": "Where is A-17?", "tenant": "acme"}}, PROMPT),  # two texts
        ({"input_args": {"ask": "[REDACTED]"}}, PROMPT),
        ({"input_args": {"ask": "__REDACTED__"}}, "Do __REDACTED__ now."),
        ({"input_args": {"ask": "Where is B-2?"}}, PROMPT),  # the prompt has it nowhere
        ({"input_args": {"ask": "here is A-1"}}, PROMPT),  # a part of a word
        ({"resume": {"answer": "A-17"}}, PROMPT),
        ({"resume": "A-17"}, PROMPT),
    ],
)
def test_any_other_input_leaves_the_models_message(given: Any, prompt: str, tmp_path: Path) -> None:
    assert derived(given, tmp_path / "s.duckdb", prompt=prompt).turns[0].user_input == prompt


@pytest.mark.parametrize(
    ("returned", "reply", "expected"),
    [
        ({"answer": "On its way."}, "next_tool_name: find", "On its way."),
        (None, "next_tool_name: find", "next_tool_name: find"),
        ({"answer": "On its way."}, "Answer: On its way.", "On its way."),
    ],
)
def test_what_a_run_returned_after_its_last_tool_is_the_reply(
    returned: Any, reply: str, expected: str, tmp_path: Path
) -> None:
    given = {"input_args": {"question": "Where is A-17?"}}
    (turn,) = derived(given, tmp_path / "s.duckdb", returned=returned, reply=reply).turns
    assert turn.final_response == expected
