"""Grade the same sessions by agentevals, which reads OTLP too, and by spangrade, in pairs; print the ratios.

    pip install agentevals-cli     # 0.11, in an environment of its own
    python tests/benchmarks/beside_agentevals.py --agentevals ENVIRONMENT/bin/agentevals

Both read OTLP JSON, a line a session as a Collector writes it, and an eval set of ADK, and compare the
names and arguments of all tool calls in order (`tool_trajectory_avg_score` at 1; `tool_usage_accuracy` at
1). agentevals scores each conversation in memory and keeps nothing. spangrade stores the spans, derives
sessions with their costs, latencies and tables for SQL, and stores the verdicts; here no other metric is a
gate. How many pass is printed of both.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from otlp_sessions import Call, Said, recorded_sessions

METRIC = "tool_usage_accuracy>=1"


class Run(NamedTuple):
    """What a command took, in seconds, and what it printed."""

    cpu_s: float
    wall_s: float
    printed: str


def conversation(number: int, *, planted: bool) -> list[Said]:
    """Return three turns; with a planted mistake the last call has another argument."""
    order, sku = f"ORD-{number:07}", f"SKU-{number % 90_000}"
    refund = {"order_id": order if not planted else "ORD-0", "amount": 4.9, "reason": "shipping"}
    return [
        Said(
            f"Where is my order {order}?",
            f"{order} has shipped.",
            [Call("lookup_order", {"order_id": order})],
        ),
        Said(
            "Please swap it for another colour.",
            f"I created the exchange of {sku}.",
            [
                Call("check_inventory", {"sku": sku, "qty": 3}, {"available": 9}),
                Call("create_exchange", {"order_id": order, "sku": sku, "qty": 3}, {"ok": True}),
            ],
        ),
        Said(
            "Refund the shipping too, please.", "I refunded 4.90 EUR.", [Call("refund", refund, {"ok": True})]
        ),
    ]


def eval_case(number: int) -> dict[str, Any]:
    """Return what a session is to do as a case of an eval set."""
    return {
        "eval_id": f"case-{number}",
        "conversation": [
            {
                "invocation_id": f"{number}-{place}",
                "user_content": {"role": "user", "parts": [{"text": turn.user}]},
                "intermediate_data": {
                    "tool_uses": [{"name": one.name, "args": one.arguments} for one in turn.calls]
                },
            }
            for place, turn in enumerate(conversation(number, planted=False))
        ],
    }


def write(folder: Path, sessions: int) -> None:
    """Write the spans of sessions, every fifth with a mistake, and their eval set to a folder."""
    resources = []
    for number in range(sessions):
        turns = conversation(number, planted=number % 5 == 0)
        case = {"key": "agentevals.eval.case.id", "value": {"stringValue": f"case-{number}"}}
        recorded = recorded_sessions(
            [(f"session-{number}", turns)], start_ns=1_767_258_000 * 10**9 + number * 10**11
        )
        resources += [{**one, "resource": {"attributes": [case]}} for one in recorded["resourceSpans"]]
    lines = [json.dumps({"resourceSpans": [one]}) + "\n" for one in resources]
    (folder / "spans.jsonl").write_text("".join(lines))
    cases = [eval_case(number) for number in range(sessions)]
    (folder / "cases.json").write_text(
        json.dumps({"eval_set_id": "pairs", "name": "pairs", "eval_cases": cases})
    )


def timed(command: list[str], folder: Path, **more: str) -> Run:
    """Run a command in a folder."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | more
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(cpu_s, wall_s, done.stdout)


def main() -> None:
    """Print the CPU and wall seconds of both, the least of the pairs, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agentevals", required=True, help="its command")
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--pairs", type=int, default=3)
    given = parser.parse_args()
    theirs = [given.agentevals, "run", "spans.jsonl", "-e", "cases.json", "-m", "tool_trajectory_avg_score"]
    theirs += ["-t", "1", "--group-by", "conversation", "-o", "summary"]
    ours = [sys.executable, "-m", "spangrade", "grade", "cases.json", "--spans", "spans.jsonl"]
    ours += ["--no-references", "--metric", METRIC, "--format", "json"]
    found: dict[str, list[Run]] = {"agentevals": [], "one process": [], "two processes": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, given.sessions)
        for _ in range(given.pairs):
            found["agentevals"].append(timed(theirs, folder))
            for workers, kind in (("1", "one process"), ("2", "two processes")):
                (folder / "spangrade.duckdb").unlink(missing_ok=True)
                found[kind].append(timed(ours, folder, SPANGRADE_WORKERS=workers))
    passed = {
        "agentevals": len(re.findall(r"\[PASS\]", found["agentevals"][0].printed)),
        "spangrade": json.loads(found["one process"][0].printed)["verdicts"]["passed"],
    }
    print(f"{given.sessions:,} sessions; passed: {passed}")
    cpu, wall = (min(run[place] for run in found["agentevals"]) for place in (0, 1))
    print(f"agentevals: CPU {cpu:.2f} s, wall {wall:.2f} s")
    for kind in ("one process", "two processes"):
        own_cpu, own_wall = (min(run[place] for run in found[kind]) for place in (0, 1))
        ratios = f"{cpu / own_cpu:.2f} times less CPU, {wall / own_wall:.2f} times less wall"
        print(f"spangrade in {kind}: CPU {own_cpu:.2f} s, wall {own_wall:.2f} s: {ratios}")


if __name__ == "__main__":
    main()
