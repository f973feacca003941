"""Databases to look at: of the sessions of `tests/cases/derive`, one for each value, and of labelled ones."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path
from typing import Any

from cases import FOLDER, changed
from made_once import made_once
from otlp_sessions import Call, Said, write_sessions

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
        late = number * 7_200_000_000_000
        events = [{**one, "time_ns": one["time_ns"] + late} for one in span.events]
        times = {key: getattr(span, key) + late for key in ("start_ns", "end_ns")}
        own = {**span.attributes, "gen_ai.conversation.id": f"conv-{number}"}
        made.append(
            span._replace(trace_id=f"{number:08x}{span.trace_id[8:]}", attributes=own, events=events, **times)
        )
    return made


def every_value() -> Path:
    """Return the database, graded twice: made once, to be opened read-only."""
    return made_once("every-value", _make)


def some_values() -> Path:
    """Return a database of every sixth of these sessions, graded and labelled, too: for many commands."""

    def make(db: Path) -> None:
        with chdir(db.parent):  # where no commit is known
            _label_some(_make(db, sessions()[::6]))

    return made_once("some-values", make)


def _make(db: Path, made: list[list[Span]] | None = None) -> spangrade.Database:
    with Store.open(db) as store:
        store.add(span for spans in made or sessions() for span in spans)
    opened = spangrade.open(db)
    opened.grade(gates=GATES[:1], name="before")
    opened.grade(gates=GATES, name="after")
    return opened


def _label_some(opened: spangrade.Database) -> None:
    for number, verdict in ((0, "pass"), (30, "fail"), (60, "pass"), (90, "fail")):
        opened.label(f"conv-{number}", verdict, by="ann", note=f"note {number}")
        opened.label(f"conv-{number}", "pass", by="bob", metric="cost")


WORKS = [Said("Where is it?", calls=[Call("look_up", {"id": 1})])]
FAILS = [Said("Where is it?", calls=[Call("look_up", {"id": 1}, error="no such order")])]


def labelled() -> Path:
    """Return a database of thirty sessions, ten of which fail, labelled by two people: not to be changed.

    Ann labels all, otherwise than the metric three of them, bob ten.
    """
    return made_once("labelled-by-two", _labelled)


def _labelled(path: Path) -> None:
    opened = spangrade.open(path)
    sessions = [(f"s{number:02}", FAILS if number < 10 else WORKS) for number in range(30)]
    opened.import_files(write_sessions(path.with_suffix(".jsonl"), sessions))
    opened.grade(gates="tool_success_rate>=0.9")
    anns = [
        {"value": "pass" if (number >= 10) != (number in (3, 20, 21)) else "fail", "note": f"note {number}"}
        for number in range(30)
    ]
    given = [{"by": "ann", **one} for one in anns] + [{"by": "bob", "value": "fail"}] * 10
    ids = [session_id for session_id, _ in (*sessions, *sessions[:10])]
    opened.labels(
        [{"session_id": one, "name": "tool_success_rate", **row} for one, row in zip(ids, given, strict=True)]
    )
