"""What a process has stored when a signal ends it, and what its own handlers notice of it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import spangrade

# The agent, with what it does before and after `configure`; it says when it is ready for the signal.
AGENT = """
import os, signal, sys, threading
signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell ignores it for what it starts in the background
{before}
from spangrade import configure, session, turn
provider = configure(db=sys.argv[1])
{after}
with session("c-1"), turn("q") as current:
    current.respond("a")
os.write(1, b"ready\\n")  # a handler may print at once, which `print` would refuse in the midst of another
{wait}
"""
WAIT = "sys.stdin.read()\nprint('goes on')"
EXITS = "signal.signal(signal.SIGTERM, lambda number, frame: (print('handled', flush=True), sys.exit(3)))"
CHAINS = """
there = signal.getsignal(signal.SIGTERM)
def handle(number, frame):
    print("handled", flush=True)
    there(number, frame)
signal.signal(signal.SIGTERM, handle)
"""
# As uvicorn does it: what is in flight ends, then the signal is raised for the handlers from before.
SERVER = """
stop = threading.Event()
there = signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
"""
SERVES = """
with session("c-2"), turn("in flight") as current:
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGTERM)
    stop.wait()
    current.respond("a")
signal.signal(signal.SIGTERM, there)
signal.raise_signal(signal.SIGTERM)
"""


def run(tmp_path: Path, number: signal.Signals | None, *, before="", after="", wait=WAIT):
    """Return the exit code, what was printed and the ids of the stored sessions."""
    db = tmp_path / "spans.duckdb"
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT.format(before=before, after=after, wait=wait), str(db)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert agent.stdout.readline() == "ready\n"
    if number is not None:
        agent.send_signal(number)
    if number is None or "SIG_IGN" in before:
        agent.stdin.write("\n")
        agent.stdin.close()
    printed = agent.stdout.read()
    code = agent.wait(60)
    agent.stdout.close()
    return code, printed, sorted(s.session_id for s in spangrade.open(db).sessions())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_ends_a_process_as_before_and_its_spans_are_stored(tmp_path, number) -> None:
    assert run(tmp_path, number) == (-number, "", ["c-1"])


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.short_form("place", 2)
def test_the_applications_own_handler_still_runs(tmp_path, place) -> None:
    assert run(tmp_path, signal.SIGTERM, **{place: EXITS}) == (3, "handled\n", ["c-1"])


def test_a_handler_that_calls_the_one_before_does_not_call_itself(tmp_path) -> None:
    assert run(tmp_path, signal.SIGTERM, after=CHAINS) == (-signal.SIGTERM, "handled\n", ["c-1"])


def test_an_ignored_signal_stays_ignored(tmp_path) -> None:
    ignores = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    assert run(tmp_path, signal.SIGTERM, before=ignores) == (0, "goes on\n", ["c-1"])


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.short_form("place", 2)
def test_what_a_server_ends_after_the_signal_is_stored_before_it_raises_it_again(tmp_path, place) -> None:
    ended = run(tmp_path, None, **{place: SERVER}, wait=SERVES)
    assert ended == (-signal.SIGTERM, "", ["c-1", "c-2"])


def test_a_signal_while_the_main_thread_flushes_loses_nothing(tmp_path) -> None:
    flushes = """
from opentelemetry.sdk.trace import SpanProcessor
import spangrade.tracer.exporter as exporter
export = exporter.DuckDBSpanExporter.export
def interrupted(self, spans):
    if threading.current_thread() is threading.main_thread():
        os.kill(os.getpid(), signal.SIGTERM)
    return export(self, spans)
exporter.DuckDBSpanExporter.export = interrupted
provider.force_flush()
sys.stdin.read()
"""
    assert run(tmp_path, signal.SIGCONT, wait=flushes) == (-signal.SIGTERM, "", ["c-1"])


def test_system_exit_stores_what_has_ended(tmp_path) -> None:
    assert run(tmp_path, None, wait="raise SystemExit(5)") == (5, "", ["c-1"])
