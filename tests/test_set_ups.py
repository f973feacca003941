"""How people set things up at once: workers of pytest, two runs, a notebook beside a service, any hash seed.

Forks after `configure` are in tests/tracer/test_forked_workers.py, gunicorn and celery in tests/servers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from paths import SAMPLE

import spangrade

EVALS = """
import pytest
from spangrade import configure, tool, turn
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

configure(db="spans.duckdb")

@tool
def look_up(number: int) -> str:
    return "shipped"

def agent(text):
    number = int(text.split()[-1])
    return f"It is {look_up(number + (number % 5 == 0))}."

@pytest.mark.parametrize("number", range(10))
def test_it_is_shipped(number):
    with turn(f"recorded {number}"):
        pass
    call = ToolCall("look_up", {"number": number})
    turns = [UserTurn(f"order {number}"), AgentTurn("It is shipped.", tool_calls=[call])]
    ConversationRunner(agent, turns).run_sync()
"""
AGENT = """
from spangrade import tool

@tool
def look_up(number: int) -> str:
    return "late" if number % 5 == 0 else "shipped"

def answer(text):
    return f"It is {look_up(int(text.split()[-1]))}."
"""
# What a notebook does all the time, until a file says that it may end.
NOTEBOOK = """
import pathlib, sys, spangrade

looked = 0
while not pathlib.Path("end").exists() or not looked:
    with spangrade.open(sys.argv[1]) as db:
        db.sql("SELECT count(*) FROM spans")
        db.grade(gates=["token_usage<=1000000"])
    looked += 1
print(looked)
"""
# An agent that sends what it does to a service, each session in a trace.
SENDER = """
import sys
from spangrade import configure, session, turn

provider = configure(endpoint=sys.argv[1])
for number in range(int(sys.argv[2])):
    with session(f"sent-{number}"), turn("hello"):
        pass
assert provider.force_flush()
"""
DEADLINE_S = 120


def started(folder: Path, *command: object, **variables: str) -> subprocess.Popen[str]:
    """Start a program of Python in a folder."""
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return how a process ended, within the deadline, and what it printed."""
    printed, errors = process.communicate(timeout=DEADLINE_S)
    return process.returncode, printed, errors


def outcomes(folder: Path, *options: str) -> tuple[Mapping[str, int], int]:
    """Run the evals in a folder; return how many passed and failed, and how many sessions they recorded."""
    folder.mkdir()
    (folder / "test_evals.py").write_text(EVALS)
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_evals.py")
    _, printed, _ = ended(started(folder, *command))
    last = printed.strip().splitlines()[-1]
    found = {outcome: int(number) for number, outcome in re.findall(r"(\d+) (passed|failed|error)", last)}
    with spangrade.open(folder / "spans.duckdb") as db:
        db.derive()
        (counted,) = db.sql("SELECT count(*) AS n FROM spans WHERE attributes::VARCHAR LIKE '%recorded %'")
        return found, int(counted["n"])


@pytest.mark.exhaustive
@pytest.mark.parametrize(("workers", "repeats"), [("2", 1), ("8", 3)])
def test_workers_and_repeats_of_pytest_lose_no_span_and_change_no_verdict(
    tmp_path: Path, workers: str, repeats: int
) -> None:
    alone = outcomes(tmp_path / "alone")
    assert alone == ({"passed": 8, "failed": 2}, 10)
    repeated = ("--count", str(repeats)) if repeats > 1 else ()
    together = outcomes(tmp_path / "together", "-n", workers, *repeated)
    assert together == ({name: number * repeats for name, number in alone[0].items()}, 10 * repeats)


@pytest.mark.parametrize("runs", [2, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_runs_at_once_on_one_file_each_have_all_their_sessions(tmp_path: Path, runs: int) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    questions = [
        {"id": f"q{n}", "user_inputs": f"order {n}", "required_texts": ["shipped"]} for n in range(10)
    ]
    (tmp_path / "golden.json").write_text(json.dumps(questions))
    command = ("-m", "spangrade", "run", "agent.py:answer", "golden.json", "--name")
    found = [ended(one) for one in [started(tmp_path, *command, f"r{n}") for n in range(runs)]]
    assert [(code, out.splitlines()[0]) for code, out, _ in found] == [
        (1, "10 sessions: 8 passed, 2 failed")
    ] * runs, found
    with spangrade.open(tmp_path / "spangrade.duckdb") as db:
        assert sorted(run["name"] for run in rows_of(db.list_runs())) == [f"r{n}" for n in range(runs)]
        assert len(db.list_sessions()) == 10 * runs


def rows_of(found: Sequence[object]) -> list[dict[str, object]]:
    return [one if isinstance(one, dict) else one._asdict() for one in found]  # type: ignore[attr-defined]


@pytest.mark.exhaustive
@pytest.mark.parametrize("sessions", [20, 400])
def test_a_notebook_beside_a_service_on_one_file_keeps_nothing_from_being_stored(
    tmp_path: Path, sessions: int
) -> None:
    db = tmp_path / "shared.duckdb"
    ports = ("--port", "0", "--http-port", "0", "--grpc-port", "0")
    service = started(tmp_path, "-m", "spangrade", "serve", "--db", db, *ports)
    try:
        assert service.stderr is not None
        lines = iter(service.stderr.readline, "")
        address = next(
            m[1] for line in lines if (m := re.search(r"OTLP over HTTP at (http://[^\s,]+)", line))
        )
        notebook = started(tmp_path, "-c", NOTEBOOK, db)
        senders = [started(tmp_path, "-c", SENDER, address, sessions) for _ in range(2)]
        assert [ended(one)[0] for one in senders] == [0, 0]
        (tmp_path / "end").touch()
        code, looked, errors = ended(notebook)
        assert (code, int(looked or 0) > 0, errors) == (0, True, "")
    finally:
        service.terminate()
        assert service.wait(DEADLINE_S) == 0
    with spangrade.open(db) as opened:
        assert len(opened.list_sessions()) == sessions
        (stored,) = opened.sql("SELECT count(DISTINCT span_id) AS n FROM spans")
        assert stored["n"] == 2 * sessions


@pytest.mark.exhaustive
def test_the_order_of_hashes_changes_no_verdict_and_no_reason(tmp_path: Path) -> None:
    written = Counter()
    for seed in ("0", "1", "random"):
        command = ("-m", "spangrade", "grade", SAMPLE, "--db", f"{seed}.duckdb", "--out", seed)
        code, printed, errors = ended(started(tmp_path, *command, PYTHONHASHSEED=seed))
        assert (code, errors) == (0, ""), printed
        written[(tmp_path / seed / "sessions.jsonl").read_text(encoding="utf-8")] += 1
    assert list(written.values()) == [3]
