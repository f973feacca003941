"""How what `audit --write` writes changes the verdicts on sessions that it has not seen.

python tests/hold_out_of_audits.py [FOLDER]    FOLDER has sessions.jsonl and tasks.json

The sessions are the 200 labelled runs of τ-bench (`data/tau_bench`): 50 tasks, four trials of each. Expected
are the calls of a task that write, and no others that write. For each trial, `audit --write` reads the other
three, and the trial is graded by the golden file as it was and as it is then. Prints how many verdicts agree
with the rewards of the benchmark, with `--from 5` and `--from 1`, and fails if fewer do by what the first
writes.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paths import SHARED

import spangrade
from spangrade import Mutants
from spangrade.evaluator.apps.audit.options import LEAST_SESSIONS

FOLDER = SHARED / "data" / "tau_bench"
WRITES = frozenset(
    {
        "book_reservation",
        "cancel_reservation",
        "send_certificate",
        "update_reservation_baggages",
        "update_reservation_flights",
        "update_reservation_passengers",
    }
)
STOP = "###STOP###"


class Agreement(NamedTuple):
    """How many verdicts on the unseen runs of a trial agree with the rewards, before and after."""

    trial: int
    runs: int
    before: int
    after: int


def question(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task as a golden question: its write calls and no others."""
    calls = [
        {"tool_name": one["name"], "input_arguments": one["kwargs"], "unordered": True}
        for one in task["actions"]
        if one["name"] in WRITES
    ]
    none = {"forbidden_tools": sorted(WRITES)}
    reference = {"reference_tool_interactions": calls, "no_further_calls": sorted(WRITES)} if calls else none
    scenario = {"starting_prompt": "Hi", "plan": [], "stop_word": STOP}
    return {"id": task["id"], "scenario": scenario, "reference_data": reference}


def _span(trace: str, number: int, name: str, at: int, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(at * 10**6),
        "endTimeUnixNano": str((at + 1) * 10**6),
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()],
    }


def spans(run: Mapping[str, Any], start_ms: int) -> Iterator[dict[str, Any]]:
    """Yield a run as spans: one of the agent for each message of the user, with those of its tools."""
    turns: list[list[Mapping[str, Any]]] = []
    for message in run["messages"]:
        if message["role"] == "user":
            turns.append([])
        if turns:
            turns[-1].append(message)
    results = {one.get("tool_call_id"): one["content"] for one in run["messages"] if one["role"] == "tool"}
    common = {"gen_ai.conversation.id": run["id"], "spangrade.question_id": run["question_id"]}
    at = start_ms
    for index, turn in enumerate(turns):
        trace = hashlib.sha256(f"{run['id']}/{index}".encode()).hexdigest()[:32]
        begin = at
        made = []
        for message in turn:
            for call in message.get("tool_calls") or ():
                at += 2
                attributes = {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": call["function"]["name"],
                    "gen_ai.tool.call.id": call["id"],
                    "gen_ai.tool.call.arguments": call["function"]["arguments"],
                }
                if (result := results.get(call["id"])) is not None:
                    attributes["gen_ai.tool.call.result"] = result
                tool = _span(trace, len(made) + 2, "execute_tool", at, common | attributes)
                if str(result).startswith("Error"):
                    tool["status"] = {"code": 2, "message": result}
                made.append({**tool, "parentSpanId": f"{1:016x}"})
        said = [text for one in turn if one["role"] == "assistant" and (text := one.get("content"))]
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "airline",
            "gen_ai.input.messages": _messages("user", turn[0]["content"]),
        }
        if said:
            attributes["gen_ai.output.messages"] = _messages("assistant", said[-1])
        if index == len(turns) - 1:
            attributes["spangrade.state"] = json.dumps(run["state"]["changed"])
        at += 2
        root = _span(trace, 1, "invoke_agent airline", begin, common | attributes)
        yield {**root, "endTimeUnixNano": str((at + 1) * 10**6)}
        yield from made
        at += 10


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def write_spans(runs: list[dict[str, Any]], file: Path) -> Path:
    """Write runs to a file as OTLP JSON; return the file."""
    made = [
        span for number, run in enumerate(runs) for span in spans(run, 1_750_000_000_000 + number * 10**6)
    ]
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": made}]}]}))
    return file


def agreeing(db: spangrade.Database, golden: Path, rewards: Mapping[str, float]) -> int:
    """Return how many verdicts agree with the rewards of the runs, by id."""
    run = db.grade(golden)
    verdicts = {one.session_id: one.verdict for one in run.sessions if one.session_id is not None}
    return sum((verdicts[name] == "passed") == (reward == 1) for name, reward in rewards.items())


def held_out(folder: Path, least: int) -> Iterator[Agreement]:
    """Yield the agreement on each trial, after an audit of the others, of at least `least` sessions."""
    runs = [json.loads(line) for line in (folder / "sessions.jsonl").read_text("utf-8").splitlines()]
    tasks = json.loads((folder / "tasks.json").read_text("utf-8"))
    asked = json.dumps({"golden_questions": [question(task) for task in tasks]}, indent=1)
    for trial in sorted({run["trial"] for run in runs}):
        with tempfile.TemporaryDirectory() as made:
            golden = Path(made) / "golden.json"
            golden.write_text(asked, "utf-8")
            seen, unseen = (
                [run for run in runs if (run["trial"] == trial) == is_unseen] for is_unseen in (False, True)
            )
            rewards = {run["id"]: run["scores"]["reward"] for run in unseen}
            db = spangrade.open(Path(made) / "unseen.duckdb")
            db.import_files(write_spans(unseen, Path(made) / "unseen.json"))
            before = agreeing(db, golden, rewards)
            others = spangrade.open(Path(made) / "seen.duckdb")
            others.import_files(write_spans(seen, Path(made) / "seen.json"))
            others.audit(golden, mutants=Mutants(least_sessions=least), write=True)
            yield Agreement(trial, len(unseen), before, agreeing(db, golden, rewards))


def main() -> int:
    """Print the figures; return whether fewer verdicts agree by what `audit --write` writes."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    if not folder.exists():
        print(f"{folder}: the labelled runs are not there")
        return 0
    lost = []
    for least in (LEAST_SESSIONS, 1):
        found = list(held_out(folder, least))
        for one in found:
            print(f"--from {least}: trial {one.trial}: {one.before} of {one.runs}, then {one.after}")
        runs, before, after = (sum(each) for each in list(zip(*found, strict=True))[1:])
        print(f"--from {least}: {before} of {runs} agree before, {after} after")
        lost.append(before - after)
    return int(lost[0] > 0)


if __name__ == "__main__":
    sys.exit(main())
