"""Spans as stacks without a dialect record them, and spans that are not an agent's: read right, or unknown.

`shapes/spans.json` is written by hand, by the documentation of each stack.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from paths import FIXTURES
from recordings import sessions

from spangrade.tracer.span import Span

SHAPES = json.loads((FIXTURES / "shapes" / "spans.json").read_text(encoding="utf-8"))


def span(written: dict[str, Any]) -> Span:
    return Span(
        "a" * 32,
        f"{written['id']:016x}",
        written["parent"] and f"{written['parent']:016x}",
        written["name"],
        written.get("kind", "INTERNAL"),
        written["start"],
        written["end"],
        attributes=written["attributes"],
        scope_name=written["scope"],
        status=written.get("status", "UNSET"),
        events=written.get("events", []),
    )


@pytest.mark.parametrize("name", SHAPES)
def test_spans_of_a_stack_without_a_dialect_are_read_right_or_not_at_all(name: str, tmp_path: Path) -> None:
    facts = SHAPES[name]["facts"]
    found = sessions(list(map(span, SHAPES[name]["spans"])), tmp_path / "s.duckdb")
    if "none" in facts:
        assert [one for one in found if one.llm_calls or one.tool_interactions or one.agents] == []
        return
    (session,) = found
    read: dict[str, Any] = {
        "sid": session.session_id if session.session_id_source == "conversation" else None,
        "turns": [[turn.user_input, turn.final_response] for turn in session.turns],
        "tools": [[c.tool_name, c.input_arguments, c.output, c.ok] for c in session.tool_interactions],
        "llm": [[c.model, c.input_tokens, c.output_tokens] for c in session.llm_calls],
        "agents": session.agents and list(session.agents),
    }
    assert {fact: read[fact] for fact in facts} == facts
