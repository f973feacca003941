"""Run an agent over many questions, kill the run twice, and resume it: nothing is lost, nothing asked twice.

    python tests/faults/resumed_runs.py [QUESTIONS]    1,000 by default, 3 repeats of each, 8 at a time

Fails unless each question has exactly three complete sessions with all turns, whose spans name the question,
and these are what is graded. Then it measures the CPU time of a turn with an agent that does nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import spangrade

REPEATS = 3
TURNS = 2
RUN = [sys.executable, "-m", "spangrade", "run", "agent.py:answer", "golden.json", "--db", "db.duckdb"]
RUN += ["--name", "long", "--repeat", str(REPEATS)]
AGENT = """
import asyncio

async def answer(text):
    await asyncio.sleep({pause_s})
    return text
"""
MOST_CPU_S = 0.005  # per turn


def main() -> int:
    """Kill and resume, print what is stored, and measure the overhead; return the exit code."""
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    os.environ |= {"SPANGRADE_RUN_CONCURRENCY": "8", "SPANGRADE_NO_REFERENCES": "true"}
    with tempfile.TemporaryDirectory() as folder:
        return max(resumed(Path(folder), questions), overhead(Path(folder), min(questions, 300)))


def resumed(folder: Path, questions: int) -> int:
    """Kill a run at a third and at two thirds of its sessions, and complete it."""
    write(folder, questions, pause_s=0.01)
    command = [*RUN, "--metric", "turns_answered>=1"]
    for number, share in enumerate((1 / 3, 1 / 3)):
        run = subprocess.Popen([*command, *(["--resume"] if number else [])], cwd=folder)
        while run.poll() is None and stored(folder) < share * questions * REPEATS * TURNS:
            time.sleep(0.2)
        run.send_signal(signal.SIGKILL)
        print(f"killed with {run.wait()} at about {stored(folder)} stored turns")
    done = subprocess.run([*command, "--resume"], cwd=folder, capture_output=True, text=True)
    print(done.stdout.splitlines()[-1], done.stderr)
    sessions, verdicts = complete(folder)
    expected = {f"q{number}": REPEATS for number in range(questions)}
    right = Counter(session.question_id for session in sessions) == expected
    right = right and {len(session.turns) for session in sessions} == {TURNS}
    right = right and verdicts.total() == questions * REPEATS
    return int(done.returncode != 0 or not right)


def complete(folder: Path) -> tuple[list[spangrade.Session], Counter[str]]:
    """Return the complete sessions that are stored, and the verdicts of the run; print their numbers."""
    with spangrade.open(folder / "db.duckdb") as db:
        stored = list(db)
        verdicts = Counter(str(one.verdict) for one in db.runs()[-1].sessions)
    sessions = [session for session in stored if "spangrade.complete" in (session.tags or ())]
    interrupted = len(stored) - len(sessions)
    print(f"{len(sessions)} complete sessions, {interrupted} interrupted, graded {dict(verdicts)}")
    return sessions, verdicts


def overhead(folder: Path, questions: int) -> int:
    """Measure the CPU time of the runner: that of many turns less that of few, with the grade left out."""
    used = []
    for number in (questions // 10, questions):
        write(folder, number, pause_s=0)
        program = (
            "import sys, time, asyncio\n"
            "sys.path.insert(0, '.')\n"
            "import agent, json\n"
            "from pathlib import Path\n"
            "from spangrade.converters.datasets.golden import load_golden\n"
            "from spangrade.evaluator.agents.hold import Conversations, Task\n"
            "from spangrade.evaluator.grading.run_options import RunOptions\n"
            "from spangrade.evaluator.agents.recorded import Recorder\n"
            "questions = load_golden(Path('golden.json')).golden_questions\n"
            "recorder = Recorder(Path('overhead.duckdb'))\n"
            "held = Conversations(agent.answer, 'x@1', RunOptions(concurrency=8), recorder)\n"
            "asyncio.run(held.hold([Task(one, 1) for one in questions]))\n"
            "recorder.close()\n"
            "print(time.process_time())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
        )
        used.append(float(done.stdout))
    per_turn_s = (used[1] - used[0]) / ((questions - questions // 10) * TURNS)
    print(f"{per_turn_s * 1000:.2f} ms of CPU per turn")
    return int(per_turn_s > MOST_CPU_S)


def write(folder: Path, questions: int, pause_s: float) -> None:
    """Write the agent and its questions."""
    (folder / "agent.py").write_text(AGENT.format(pause_s=pause_s))
    asked = [
        {
            "id": f"q{number}",
            "user_inputs": [f"turn {turn} of {number}" for turn in range(TURNS)],
            "agents_evaluated": ["agent"],
            "reference_data": {},
        }
        for number in range(questions)
    ]
    (folder / "golden.json").write_text(json.dumps({"golden_questions": asked}))


def stored(folder: Path) -> int:
    """Return about how many turns are stored, by the bytes that they take."""
    spool = folder / "db.duckdb.spool"
    return sum(path.stat().st_size for path in spool.glob("*")) // 2_200 if spool.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
