"""τ-bench's tasks as golden questions, in two ways, and its runs as spans and labels.

    python examples/benchmarks/tau_bench.py TAU_BENCH OUT

The folder TAU_BENCH has `tasks.json` (`actions`, `outputs`, and the records that the actions `changed`) and
`sessions.jsonl` (the runs as chat messages, with `state.changed` and `scores.reward`). OUT gets `whole.json`
(what the benchmark rewards: the records at the end, and the texts), `writes.json` (the calls that write, and
the texts), `sessions.jsonl`, which `spangrade import` reads, and `labels.csv`.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WRITES = ("book_", "cancel_", "send_", "update_")
STOP = "###STOP###"  # with it the simulated user hangs up, and needs no reply


def whole(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task as a question: each changed record, nothing else in the state, and the texts."""
    return _question(task, {"reference_state_variables": task["changed"], "reference_state_exact": True})


def writes(task: Mapping[str, Any], tools: list[str]) -> dict[str, Any]:
    """Return a task as a question: the calls that write and no others of these tools, and the texts."""
    calls = [
        {"name": action["name"], "arguments": action["kwargs"]}
        for action in task["actions"]
        if action["name"] in tools
    ]
    limits = {"no_further_calls": tools, "failed_calls": "ignore"}
    return _question(task, limits | ({"reference_tool_interactions": calls} if calls else {}))


def _question(task: Mapping[str, Any], references: dict[str, Any]) -> dict[str, Any]:
    texts = {"required_texts": task["outputs"]} if task["outputs"] else {}
    scenario = {"starting_prompt": task["instruction"], "plan": [], "stop_word": STOP}
    return {"id": task["id"], "scenario": scenario, **references, **texts}


def main(source: Path, out: Path) -> None:
    """Write the questions, spans and labels."""
    out.mkdir(parents=True, exist_ok=True)
    tasks = json.loads((source / "tasks.json").read_text())
    sessions = [json.loads(line) for line in (source / "sessions.jsonl").read_text().splitlines()]
    called = {
        call["function"]["name"]
        for session in sessions
        for message in session["messages"]
        for call in message.get("tool_calls") or ()
    } | {action["name"] for task in tasks for action in task["actions"]}
    tools = sorted(name for name in called if name.startswith(WRITES))
    for session in sessions:
        session["state"] = session["state"]["changed"]
    (out / "whole.json").write_text(json.dumps([whole(task) for task in tasks], indent=1))
    (out / "writes.json").write_text(json.dumps([writes(task, tools) for task in tasks], indent=1))
    (out / "sessions.jsonl").write_text("".join(f"{json.dumps(session)}\n" for session in sessions))
    with (out / "labels.csv").open("w", newline="") as file:
        rewards = {one["id"]: "pass" if one["scores"]["reward"] == 1 else "fail" for one in sessions}
        rows = [(name, "passed", reward, "tau_bench") for name, reward in rewards.items()]
        csv.writer(file).writerows([("session_id", "name", "value", "by"), *rows])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
