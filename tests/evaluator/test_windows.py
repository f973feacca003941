"""Whatever derives sessions has the database open in short windows: others can write in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from paths import SAMPLE

import spangrade
from spangrade.evaluator.derive.sync import parts, update
from spangrade.tracer.files import read
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.spool import write

SPANS = [record for record in read(SAMPLE / "spans.otlp.jsonl") if isinstance(record, Span)]
COMMANDS: dict[str, Callable[[spangrade.Database], object]] = {
    "sessions": lambda db: list(db.sessions()),
    "derive": lambda db: db.derive(),
    "grade": lambda db: db.grade(SAMPLE / "customer_service_golden.json"),
    "delete": lambda db: db.delete(["conversation-1"]),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.short_form("command", 4)
def test_the_database_is_free_between_steps(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        store.add(SPANS[:20])
    for first in range(20, len(SPANS), 12):
        write(path, rows_of(SPANS[first : first + 12]))
    opened: list[Path] = []

    def open_in_between(_: float) -> None:
        with Store.open(path) as store:
            opened.append(store.path)

    monkeypatch.setattr(update, "AT_ONCE", 5)
    monkeypatch.setattr(update, "WINDOW_S", 0)
    monkeypatch.setattr(time, "sleep", open_in_between)
    db = spangrade.open(path)
    COMMANDS[command](db)
    assert len(opened) > 5
    assert len(list(db.sessions())) == (3 if command == "delete" else 4)


@pytest.mark.exhaustive
def test_the_share_that_is_done_is_reported_while_files_are_read_and_sessions_derived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str | float] = []
    db = spangrade.open(tmp_path / "s.duckdb", on_progress=steps.append, on_share=steps.append)
    monkeypatch.setattr(parts, "PART", 10_000)
    db.import_files(SAMPLE / "spans.otlp.jsonl")
    shares = steps[1:-1]
    assert (steps[0], steps[-1]) == ("importing", "deriving sessions")
    assert len(shares) == 3
    assert (shares, shares[-1]) == (sorted(shares), 1.0)
    steps.clear()
    monkeypatch.setattr(update, "AT_ONCE", 5)
    monkeypatch.setattr(update, "WINDOW_S", 0)
    db.derive(all=True)
    assert steps[0] == "deriving sessions"
    assert len(steps) > 5
    assert steps[1:] == sorted(steps[1:])
