"""What is derived from recordings of stacks, against facts that were worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from paths import FIXTURES
from recordings import sessions

from spangrade.evaluator.session import Session
from spangrade.tracer.files import read
from spangrade.tracer.span import Problem

STACKS = FIXTURES / "stacks"
EXPECTED: dict[str, list[dict[str, Any]]] = json.loads((STACKS / "expected.json").read_text(encoding="utf-8"))


def facts(session: Session) -> dict[str, Any]:
    return {
        "session_id": session.session_id if session.session_id_source == "conversation" else None,
        "identity_doubt": session.identity_doubt,
        "agents": session.agents and list(session.agents),
        "turns": [[turn.user_input, turn.final_response] for turn in session.turns],
        "tools": [[c.tool_name, c.input_arguments, c.output, c.ok] for c in session.tool_interactions],
        "model_calls": [[c.model, c.input_tokens, c.output_tokens] for c in session.llm_calls],
        "usage_complete": session.usage.complete,
    }


def test_every_recording_has_its_facts() -> None:
    assert sorted(EXPECTED) == sorted(p.name.partition(".")[0] for p in STACKS.glob("*.otlp.jsonl"))


@pytest.mark.parametrize("stack", sorted(EXPECTED))
def test_a_recording_is_read_as_its_facts_say(stack: str, tmp_path: Path) -> None:
    records = [r for r in read(STACKS / f"{stack}.otlp.jsonl") if not isinstance(r, Problem)]
    found = sorted(sessions(records, tmp_path / "s.duckdb"), key=lambda session: session.start_ns or 0)
    assert [facts(session) for session in found] == EXPECTED[stack]
    assert [(s.not_understood, s.unreadable_spans) for s in found] == [(0, ())] * len(found)
