"""Workers store their spans however they end; forked processes at every exit that runs any Python code."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import drain

POOL = """
import multiprocessing, sys
from spangrade.tracer import configure, turn

def work(number):
    with turn(str(number)):
        return number

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    if sys.argv[2] == "fork":
        configure(db=sys.argv[1])
        pool = context.Pool(4)
    else:  # fewer: each imports everything
        pool = context.Pool(2, configure, (None, sys.argv[1]))
    with pool:
        assert sorted(pool.imap_unordered(work, range(80))) == list(range(80))
        if sys.argv[3] == "close":
            pool.close()
            pool.join()
"""

EXECUTOR = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from spangrade.tracer import configure, turn

def work(number):
    with turn(str(number)):
        return number

configure(db=sys.argv[1])
with ProcessPoolExecutor(4, get_context("fork")) as executor:
    assert list(executor.map(work, range(80))) == list(range(80))
"""

# The spans of a worker may be in a trace that its parent has begun, and are then never a trace's root.
KILLED = """
import multiprocessing, os, signal, sys, time
from spangrade.tracer import configure, turn
from opentelemetry import trace

def work(ready):
    for number in range(80):
        with turn(str(number)):
            pass
    ready.set()
    while True:
        time.sleep(60)

configure(db=sys.argv[1])
context = multiprocessing.get_context("fork")
ready = context.Event()
worker = context.Process(target=work, args=(ready,))
with trace.get_tracer("test").start_as_current_span("in the parent"):
    worker.start()
ready.wait()
os.kill(worker.pid, int(sys.argv[2]))
worker.join()
assert worker.exitcode == -int(sys.argv[2]), worker.exitcode
"""

# What a worker keeps in the spool is removed when it is in the database; the spool is redacted too.
KEPT = """
import multiprocessing, sys
from pathlib import Path
from spangrade.tracer import configure, turn

def work(db):
    provider = configure(db=db, redact="mask")
    spool = Path(f"{db}.spool")
    for number in range(10):
        with turn("write to ada@example.com"):
            pass
    kept = b"".join(file.read_bytes() for file in spool.iterdir())
    assert len(list(spool.iterdir())) == 10 and b"write to" in kept and b"ada@" not in kept
    provider.force_flush()
    assert not list(spool.iterdir())

worker = multiprocessing.get_context("fork").Process(target=work, args=(sys.argv[1],))
worker.start()
worker.join()
assert worker.exitcode == 0
"""

# As gunicorn does it: configured before the fork; the worker's handler of SIGTERM lets it exit.
PRE_FORK = """
import os, signal, sys
from spangrade.tracer import configure, turn

configure(db=sys.argv[1])
readers = []
children = []
for worker in range(4):
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        children.append(child)
        readers.append(reader)
        continue
    if sys.argv[2] == "handler":
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
        signalled, signals = os.pipe()
        os.set_blocking(signals, False)
        signal.set_wakeup_fd(signals)
    for number in range(20 * worker, 20 * worker + 20):
        with turn(str(number)):
            pass
    os.write(writer, b"1")
    if sys.argv[2] == "handler":
        os.read(signalled, 1)  # also if the signal came before, of which signal.pause() would not know
    sys.exit(0)
for reader, child in zip(readers, children):
    assert os.read(reader, 1) == b"1"
    if sys.argv[2] == "handler":
        os.kill(child, signal.SIGTERM)
    assert os.waitpid(child, 0)[1] == 0
"""


def stored(tmp_path: Path, script: str, *arguments: str) -> list[int]:
    """Run a script; return the numbers of the turns that it stored."""
    (tmp_path / "workers.py").write_text(script)
    db = tmp_path / "s.duckdb"
    command = [sys.executable, "-W", "ignore", str(tmp_path / "workers.py"), str(db), *arguments]
    subprocess.run(command, check=True, timeout=300)
    with Store.open(db) as store:
        drain(store)
        rows = store.query(
            "SELECT (attributes->>'$.\"spangrade.turn.input\"')::INTEGER AS number FROM spans "
            "WHERE number IS NOT NULL ORDER BY 1"
        )
    return [number for (number,) in rows]


@pytest.mark.parametrize("end", ["close", "terminate"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.short_form("end", 2)
@pytest.mark.short_form("method", 6)
def test_a_pools_workers_store_their_spans(tmp_path: Path, method: str, end: str) -> None:
    assert stored(tmp_path, POOL, method, end) == list(range(80))


def test_an_executors_workers_store_their_spans(tmp_path: Path) -> None:
    assert stored(tmp_path, EXECUTOR) == list(range(80))


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.short_form("by", 2)
def test_a_killed_worker_has_stored_its_finished_turns(tmp_path: Path, by: signal.Signals) -> None:
    assert stored(tmp_path, KILLED, str(int(by))) == list(range(80))


def test_a_worker_redacts_what_it_keeps_and_removes_it_when_it_is_stored(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(KEPT)
    db = tmp_path / "s.duckdb"
    subprocess.run([sys.executable, str(tmp_path / "worker.py"), str(db)], check=True, timeout=300)
    with Store.open(db) as store:
        assert store.query("SELECT count(*), count(DISTINCT span_id) FROM spans") == [(10, 10)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("end", ["exit", "handler"])
@pytest.mark.short_form("end", 2)
def test_workers_of_a_pre_fork_server_store_their_spans(tmp_path: Path, end: str) -> None:
    assert stored(tmp_path, PRE_FORK, end) == list(range(80))
