"""Run an agent over scenarios, kill the run twice, and resume it: nothing is lost, nothing held twice.

    python tests/faults/resumed_simulations.py [SCENARIOS]    200 by default, 3 repeats of each, 8 at a time

A stand-in plays the users and the judge over HTTP, through the real client. Fails unless each scenario has
exactly three complete sessions that pass. Then it measures the CPU time of a simulated turn, with an agent
that does nothing and a user's model that answers at once: for the runner alone, and with a model's client.
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

sys.path.insert(0, str(Path(__file__).parents[1]))

from gemini_standin import GeminiStandIn, Request, gemini_standin
from resumed_runs import REPEATS, RUN, complete

TURNS = 3
MOST_CPU_S = 0.005  # per turn, of the runner
AGENT = """
async def answer(text, history):
    return "It is done." if len(history) >= 4 else "Which order is it, and which size?"
"""
OVERHEAD = """
import asyncio, json, sys, time
from pathlib import Path
sys.path.insert(0, ".")
import agent
from spangrade.converters.datasets.golden import load_golden
from spangrade import RunOptions
from spangrade.evaluator.judge import Judgement, JudgeRun, load_judge
from spangrade.evaluator.agents.hold import Conversations, Task
from spangrade.evaluator.agents.recorded import Recorder

class AtOnce:
    name = "at-once"

    async def ask(self, question):
        ended = "plan_done" if len(question.material) >= 6 else "no"
        said = {"why": "", "plan_part": 1, "ended": ended, "text": "It is A-1001, size 41."}
        return Judgement(None, None, json.dumps(said))

judge = AtOnce() if sys.argv[1] == "alone" else load_judge("gemini/gemini-2.5-flash")
questions = load_golden(Path("golden.json")).golden_questions
recorder = Recorder(Path(f"overhead-{sys.argv[1]}.duckdb"))
held = Conversations(agent.answer, "x@1", RunOptions(concurrency=8), recorder, user_model=JudgeRun(judge))
asyncio.run(held.hold([Task(one, 1) for one in questions]))
recorder.close()
print(time.process_time())
"""


def main() -> int:
    """Kill and resume, print what is stored, and measure the overhead; return the exit code."""
    scenarios = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder, gemini_standin() as standin:
        os.environ |= {
            "GOOGLE_GEMINI_BASE_URL": standin.url,
            "GEMINI_API_KEY": "key",
            "SPANGRADE_JUDGE_MODEL": "gemini-2.5-flash",
            "SPANGRADE_RUN_AGENT_NAME": "agent",
            "SPANGRADE_RUN_CONCURRENCY": "8",
            "SPANGRADE_RUN_USER_MODEL": "gemini/gemini-2.5-flash",
            "SPANGRADE_CACHE_DIR": str(Path(folder, "cache")),
        }
        standin.answer = answered
        failed = resumed(Path(folder), scenarios, standin)
        alone_s = overhead(Path(folder), min(scenarios, 200), "alone")
        print(f"{alone_s * 1000:.2f} ms of CPU per simulated turn")
        print(
            f"{overhead(Path(folder), min(scenarios, 200), 'client') * 1000:.2f} ms with the client of Gemini"
        )
        return max(failed, int(alone_s > MOST_CPU_S))


def answered(request: Request) -> str:
    """Answer as a user that knows its order, and as a judge that is content."""
    if "You play a user" not in request.system:
        return json.dumps({"reason": "so it is", "passed": True, "score": None})
    ended = "plan_done" if "It is done." in request.prompt else "no"
    text = "" if ended != "no" else "It is A-1001."
    return json.dumps({"why": "it asked", "plan_part": 1, "ended": ended, "text": text})


def resumed(folder: Path, scenarios: int, standin: GeminiStandIn) -> int:
    """Kill a run at a third and at two thirds of its user's calls, and complete it."""
    write(folder, scenarios)
    for number in range(2):
        run = subprocess.Popen([*RUN, *(["--resume"] if number else [])], cwd=folder)
        at = standin.calls + scenarios * REPEATS * TURNS // 3
        while run.poll() is None and standin.calls < at:
            time.sleep(0.05)
        run.send_signal(signal.SIGKILL)
        print(f"killed with {run.wait()} at {standin.calls} calls of the user's model")
    done = subprocess.run([*RUN, "--resume"], cwd=folder, capture_output=True, text=True)
    print(done.stdout.splitlines()[-1], done.stderr)
    sessions, verdicts = complete(folder)
    expected = {f"s{number}": REPEATS for number in range(scenarios)}
    right = Counter(session.question_id for session in sessions) == expected
    shapes = {(len(session.turns), len(session.simulated_messages)) for session in sessions}
    right = right and shapes == {(TURNS, TURNS + 1)} and verdicts == {"passed": scenarios * REPEATS}
    return int(done.returncode != 0 or not right)


def overhead(folder: Path, scenarios: int, form: str) -> float:
    """Return the CPU time of a turn: that of many scenarios less that of few."""
    used = []
    for number in (scenarios // 10, scenarios):
        write(folder, number)
        done = subprocess.run(
            [sys.executable, "-c", OVERHEAD, form], cwd=folder, capture_output=True, text=True, check=True
        )
        used.append(float(done.stdout))
    return (used[1] - used[0]) / ((scenarios - scenarios // 10) * TURNS)


def write(folder: Path, scenarios: int) -> None:
    """Write the agent and its scenarios."""
    (folder / "agent.py").write_text(AGENT)
    asked = [
        {
            "id": f"s{number}",
            "scenario": {
                "starting_prompt": f"I am number {number}, and want to return something.",
                "plan": ["Return order {order}"],
                "facts": {"order": "A-1001", "size": "41"},
            },
            "agents_evaluated": ["agent"],
            "reference_data": {},
        }
        for number in range(scenarios)
    ]
    (folder / "golden.json").write_text(json.dumps({"golden_questions": asked}))


if __name__ == "__main__":
    sys.exit(main())
