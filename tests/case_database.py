"""A database of the sessions of `tests/cases/derive`: one for each value of its numbers and outcomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cases import FOLDER, changed
from made_once import made_once

import spangrade
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

TRIED = ("usage", "model", "_ns", "error", "status", "tool.name", "agent.name", "evaluation.score")
GATES = ["cost<=0.00124", "token_usage", "tool_success_rate>=0.5", "latency_metrics"]


def sessions() -> list[list[Span]]:
    """Return the spans of each session, with ids of its own and a day after those of the one before."""
    case = json.loads((FOLDER / "derive" / "every_value.json").read_text("utf-8"))
    tried = [
        changed(case["given"], place, value)
        for place, rows in case["rows"].items()
        if place.endswith(tuple(TRIED)) or "usage" in place
        for value, _ in rows[::2]
    ]
    return [_own(number, one["spans"]) for number, one in enumerate(tried)]


def _own(number: int, spans: list[dict[str, Any]]) -> list[Span]:
    made = []
    for one in spans:
        span = Span(**one)
        times = {key: getattr(span, key) + number * 7_200_000_000_000 for key in ("start_ns", "end_ns")}
        own = {**span.attributes, "gen_ai.conversation.id": f"conv-{number}"}
        made.append(span._replace(trace_id=f"{number:08x}{span.trace_id[8:]}", attributes=own, **times))
    return made


def every_value() -> Path:
    """Return the database, graded twice: made once, to be opened read-only."""
    return made_once("every-value", _make)


def _make(db: Path) -> None:
    with Store.open(db) as store:
        store.add(span for spans in sessions() for span in spans)
    opened = spangrade.open(db)
    opened.grade(gates=GATES[:1], name="before")
    opened.grade(gates=GATES, name="after")
