"""A session for a model that reads it: an outline first, then the parts that it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from spangrade.evaluator.database import GradedSession
from spangrade.evaluator.grading.stored_sessions import StoredGrade
from spangrade.evaluator.metrics.causes import causes_text
from spangrade.evaluator.reports.json import external_score_json
from spangrade.evaluator.reports.session_items import Item, session_items
from spangrade.evaluator.session import LLMCall, Session, Step
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import InputError

OUTLINE = "outline"
_SHORT = 120  # characters of arguments and results in an outline
_NUMBERED = re.compile(r"(turn|call|model) (\d{1,9})")


def outline(graded: GradedSession) -> list[dict[str, Any]]:
    """Return what a session is and how it was graded, then each turn in short."""
    s, grade, given = graded
    head = {
        "session_id": s.session_id,
        "question_id": s.question_id or (grade.question_id if grade else None),
        **_verdict(grade),
        "labels_and_scores": [f"{one.name}: {one.label or one.value}" for one in given] or None,
        "agents": s.agents,
        "models": s.models,
        "input_tokens": s.usage.input_tokens,
        "output_tokens": s.usage.output_tokens,
        "cost_usd": s.cost_usd,
        "seconds": s.latency.total_s,
        "errors": len(s.errors) or None,
        "unfinished": s.unfinished,
        "assembly_error": s.assembly_error,
    }
    items = session_items(s)
    turns = [
        {
            "turn": one.turn.turn,
            "user": one.turn.user_input,
            "steps": list(map(_step, one.items)),
            "reply": one.turn.final_response,
            "seconds": one.turn.latency_s,
            "errors": [f"{error.where}: {error.message}" for error in one.errors] or None,
            "failed": one.turn.failed or None,
        }
        for one in items.turns
    ]
    outside = [{"outside_of_turns": list(map(_step, items.outside))}] if items.outside else []
    errors = [{"errors_elsewhere": [f"{one.where}: {one.message}" for one in items.errors]}]
    state = [] if s.state_variables is None else [{"state": s.state_variables}]
    return [known(one) for one in (head, *turns, *outside, *(errors if items.errors else []), *state)]


def parts_of(s: Session) -> str:
    """Return the names of the parts of a session, for a message."""
    numbers = {"turn": len(s.turns), "call": len(s.tool_interactions), "model": len(s.llm_calls)}
    numbered = [f"{name} 1 to {name} {number}" for name, number in numbers.items() if number]
    return ", ".join([OUTLINE, *numbered, *_PARTS, "question", "spans"])


def part_of(graded: GradedSession, part: str) -> Any:
    """Return a part of a session. Raises InputError for one that it does not have."""
    if part in _PARTS:
        return _PARTS[part](graded)
    s = graded.session
    whole = s.to_json()
    found = _NUMBERED.fullmatch(part.strip())
    lists = {"turn": whole["turns"], "call": whole["tool_interactions"], "model": whole["llm_calls"]}
    number = int(found[2]) if found else 0
    if found is None or not 0 < number <= len(lists[found[1]]):
        raise InputError(f"part: expected one of {parts_of(s)}")
    one = lists[found[1]][number - 1]
    if found[1] != "turn":
        return one
    turn = s.turns[number - 1].turn
    calls = [each for each in whole["tool_interactions"] if each["turn"] == turn]
    return {**one, "tool_interactions": calls}


def _verdict(grade: StoredGrade | None) -> dict[str, Any]:
    if grade is None:
        return {"verdict": "not graded"}
    return {
        "verdict": grade.verdict,
        "graded_by_run": grade.run_named,
        "arrived_since": grade.arrived_since or None,
        "where": causes_text(grade.causes) if grade.causes else None,
        "reason": grade.reason or None,
    }


def _step(item: Item) -> str:
    record = item.record
    if isinstance(record, Step):
        return f"agent {record.name}"
    if isinstance(record, LLMCall):
        counts = f"{_or_unknown(record.input_tokens)} → {_or_unknown(record.output_tokens)} tokens"
        text = f"model {record.position} {record.model}: {counts}, {_seconds(record.latency_s)}"
        return f"{text}{''.join(f', error: {one.message}' for one in item.errors)}"
    result = record.error or _short(record.output) if record.output_known else record.error or "no result"
    state = record.approval or {True: "ok", False: "failed", None: "unknown"}[record.ok]
    arguments = _short(record.input_arguments) if record.arguments_known else "arguments unknown"
    kind = f"{item.kind} " if record.handoff else ""
    return (
        f"call {record.position} {kind}{record.tool_name} {arguments} → {state}: {result} "
        f"({_seconds(record.latency_s)})"
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else dumps(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def _seconds(seconds: float | None) -> str:
    return "unknown duration" if seconds is None else f"{seconds:.3g} s"


def _or_unknown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def _scores(graded: GradedSession) -> dict[str, Any]:
    return {
        "grade": graded.grade and graded.grade.to_json(),
        "external_scores": list(map(external_score_json, graded.external_scores)),
    }


_PARTS: Mapping[str, Callable[[GradedSession], Any]] = {
    "state": lambda graded: graded.session.state_variables,
    "scores": _scores,
    "errors": lambda graded: [one._asdict() for one in graded.session.errors],
    "instructions": lambda graded: graded.session.system_instruction,
    "tools": lambda graded: graded.session.tool_declarations,
}
