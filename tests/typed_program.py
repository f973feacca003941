"""A program against the public API, for `mypy --strict tests/typed_program.py`; nothing runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

import spangrade
from spangrade import (
    Database,
    Failure,
    Inconclusive,
    Metric,
    NotApplicable,
    Outcome,
    Rows,
    Run,
    Score,
    Session,
    metric,
)


@metric(threshold=5, unit="turns", higher_is_better=False)
def turns(session: Session) -> Outcome:
    return Score(len(session.turns)) if session.turns else Inconclusive("no turn")


def of_an_outcome(outcome: Outcome) -> float | None:
    match outcome:
        case Score(value):
            return value
        case Inconclusive() | NotApplicable() | Failure():
            return None


def wrap() -> None:
    spangrade.configure("shop.duckdb")
    with spangrade.session("conversation-1"), spangrade.turn("hi") as turn:
        turn.respond("ho")


def grade() -> None:
    db = assert_type(spangrade.open("shop.duckdb"), Database)
    run = assert_type(db.grade("golden.json", gates=["tools:recall>=0.9", turns]), Run)
    counts: Mapping[str, int] = {verdict.value: number for verdict, number in run.verdicts.items()}
    code: int = run.exit_code
    for session in db.sessions(failed=True):
        assert_type([call.tool_name for call in session.tool_interactions], list[str])
    rows = assert_type(db.sql("SELECT 1"), Rows)
    assert_type(turns, Metric)
    print(counts, code, rows.to_pandas(), spangrade.nothing)  # type: ignore[attr-defined]
