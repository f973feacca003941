"""The age of what waits in the spool, whatever a clock is set to."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spangrade.tracer.receiver.queue import SpoolQueue
from spangrade.tracer.span import Span
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.spool import write

YEAR_NS = 365 * 86_400 * 10**9
NOW_NS = time.time_ns


def clock(ahead_ns: int) -> Callable[[], int]:
    return lambda: NOW_NS() + ahead_ns


@pytest.mark.parametrize("ahead_ns", [-20 * YEAR_NS, 0, 200 * YEAR_NS])
def test_a_clock_that_is_set_makes_records_neither_older_nor_newer(
    ahead_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "s.duckdb"
    write(db, rows_of([Span("a" * 32, "b" * 16, None, "chat", "CLIENT", 1, 2)]))
    queue = SpoolQueue(db, 10**9)
    try:
        monkeypatch.setattr(time, "time_ns", clock(ahead_ns))
        assert 0 <= (queue.age_s() or -1) < 600
    finally:
        queue.close()


def test_records_of_a_process_whose_clock_was_ahead_are_as_old_as_the_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "s.duckdb"
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time_ns", clock(200 * YEAR_NS))
        write(db, rows_of([Span("a" * 32, "b" * 16, None, "chat", "CLIENT", 1, 2)]))
    queue = SpoolQueue(db, 10**9)
    try:
        assert 0 <= (queue.age_s() or -1) < 600
    finally:
        queue.close()
