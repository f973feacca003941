"""Sessions in a database that is watched, and a clock, for tests of `spangrade serve --only grade`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from made_once import new_store
from otlp_sessions import START_NS, Call, Said, write_sessions

from spangrade import GradeSpec
from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.grading.prepare import Prepared, prepare
from spangrade.tracer.files import read
from spangrade.tracer.span import Problem
from spangrade.tracer.store import Store

MINUTE = 60 * 10**9
LATER = START_NS + 600 * MINUTE
OK = (Said("hello", calls=[Call("lookup")]),)
BAD = (Said("hello", calls=[Call("lookup", error="broke")]),)
GATE = "tool_success_rate>=1"
ALL = WatchOptions(notify_since="1970-01-01")  # what is sent, also of sessions that ended before the start


class Clock:
    """A clock that stands still between two settings."""

    def __init__(self, now_ns: int) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns


def add(
    db: Path, sessions: Sequence[tuple[str, Sequence[Said]]], start_ns: int = START_NS, first: int = 0
) -> None:
    """Store the spans of sessions from the `first` on, as a receiver does; nothing is derived."""
    file = write_sessions(db.with_suffix(".jsonl"), sessions, start_ns=start_ns)
    with Store.open(db) if db.exists() else new_store(db) as store:
        store.add([one for one in read(file) if not isinstance(one, Problem)][first:])


def rows(db: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(db, read_only=True) as connection:
        return connection.execute(query).fetchall()


def verdicts(db: Path) -> list[tuple[Any, ...]]:
    return rows(db, "SELECT session_id, verdict FROM verdicts ORDER BY ALL")


def prepared_by(dataset: Path | None = None, **asked: Any) -> Prepared:
    """Return what a grade by a dataset, gates or a judge needs."""
    return prepare(GradeSpec.of(dataset, **asked), None)
