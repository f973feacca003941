"""The parts of one process that take turns at a database."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from spangrade.tracer.receiver import loader
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.queue import SpoolQueue
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.locks import deriving, taking_turns
from spangrade.tracer.store.spool import write


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


def test_the_loader_waits_for_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        loader, "_WINDOW_S", 0.01
    )  # after which it gives up where another process has the file
    monkeypatch.setattr(loader, "_EVERY_S", 0.01)
    db, loaded = tmp_path / "s.duckdb", threading.Event()
    write(db, rows_of([Span("1" * 32, "2" * 16, None, "chat", "CLIENT", 1, 2)]))
    queue = SpoolQueue(db, 10**9)
    with taking_turns(db):
        with Store.open(db):
            running = loader.Loader(db, queue, Counters(), maintenance_task=lambda _: loaded.set())
            running.start()
            assert not loaded.wait(0.2)  # it comes after the first attempt to load
        assert loaded.wait(5)
        assert running.last_error is None
        assert running.stop(5)
    queue.close()
    with Store.open(db) as store:
        assert store.query("SELECT count(*) FROM spans") == [(1,)]
