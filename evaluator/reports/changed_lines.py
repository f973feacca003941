"""What was said and called before and now: the lines that differ between two sessions."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff

from spangrade.evaluator.derive import load_sessions
from spangrade.evaluator.session import Session
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import SpangradeError
from spangrade.tracer.store.store import Stored

_MAX_LINE = 200  # characters


def lines_that_differ(before: str, after: str, stored: Stored) -> list[tuple[str, str]]:
    """Return the lines that differ between two sessions, each with `-` (the first's) or `+`.

    There is none if one of the two is not stored.
    """
    found = stored_sessions([before, after], stored)
    if before not in found or after not in found:
        return []
    return [(line[0], line[1:]) for line in differing(found[before], found[after], context=0)]


def differing(before: Session, after: Session, context: int) -> list[str]:
    """Return the lines that differ, with the number of equal lines around them that `context` says."""
    return [
        line
        for line in unified_diff(_spoken(before), _spoken(after), n=context, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]


def stored_sessions(ids: Sequence[str], stored: Stored) -> dict[str, Session]:
    """Return those of the sessions that are stored, by id."""
    try:
        with stored.reading() as store:
            return {session.session_id: session for session in load_sessions(store, ids).decoded()}
    except SpangradeError:
        return {}


def _spoken(session: Session) -> list[str]:
    """Return what the user and the agent said, and which tools it called, a line each."""
    lines = []
    for number, turn in enumerate(session.turns, 1):
        lines.append(f"user: {turn.user_input or ''}")
        lines += [
            f"{call.tool_name} {dumps(call.input_arguments)} → {dumps(call.output)}"
            for call in session.tool_interactions
            if call.turn == number
        ]
        lines.append(f"agent: {turn.final_response or ''}")
    return [" ".join(line.split())[:_MAX_LINE] for line in lines]
