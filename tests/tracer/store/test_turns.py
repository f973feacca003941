"""The parts of one process that take turns at a database."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from spangrade.tracer.store.turns import deriving, taking_turns


def test_one_part_derives_at_a_time_and_another_waits_until_it_is_to_stop(tmp_path: Path) -> None:
    db, go_on, stop = tmp_path / "s.duckdb", threading.Event(), threading.Event()

    def derive(until: threading.Event) -> bool:
        with deriving(db, until):
            return True

    def waits(other: Future[bool]) -> bool:
        with pytest.raises(TimeoutError):
            other.result(0.2)
        return True

    with taking_turns(db), ThreadPoolExecutor() as pool:
        with deriving(db, go_on):
            later, stopped = pool.submit(derive, go_on), pool.submit(derive, stop)
            assert waits(later)
            stop.set()
            assert stopped.result(5)
            assert waits(later)
        assert later.result(5)
    with deriving(db, go_on), deriving(db, go_on):  # nothing takes turns
        pass
