"""What golden questions are worth that are made of failed sessions: planted defects, whose truth is known.

python tests/failures_to_questions.py [DEFECTS] [-v]    50 sessions of `gen.py`, each with a planted defect

A person says of each failure what the session without the defect did: the call with its arguments, the tool
that should not have been called, how often one may be, which of two is first. Prints, by defect, of how many
the question fails on the session, passes on the corrected copy, passes on the session without the defect
(`as planned`), and catches at least 80% of the mutants of the failure; fails if one of the shares is below
90%. A conversation that the user ends early is not a failure of the agent: such sessions are left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paths import SHARED

import spangrade
from spangrade.evaluator.apps.audit.failure_to_golden import ENOUGH, Corrected, Corrections, correct
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.session import Session

FLOOR = 0.9
COLUMNS = ("fails", "passes", "as planned", ">= 80%")


def planted(number: int) -> Iterator[tuple[str, Session, Session]]:
    """Yield defects, each with its session and the session without it."""
    with tempfile.TemporaryDirectory() as folder:
        for share in ("0", "1"):
            command = [sys.executable, str(SHARED / "bench" / "gen.py"), "-n", str(number * 2)]
            command += ["-o", f"{folder}/{share}", "--defects", share]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        good = {one.session_id: one for one in spangrade.sessions(Path(folder, "0", "traces.jsonl"))}
        manifest = json.loads(Path(folder, "1", "manifest.json").read_text())
        defects = {one["session"]: one["defect"] for one in manifest}
        found = 0
        for one in spangrade.sessions(Path(folder, "1", "traces.jsonl")):
            defect = defects[one.session_id]
            if defect and defect != "early_stop" and found < number:
                found += 1
                yield defect, one, good[one.session_id]


def said(defect: str, good: Session) -> Corrections:
    """Return what a person says who knows what should have happened."""
    calls = good.tool_interactions
    if defect == "extra_tool":
        return Corrections(references={"forbidden_tools": ["search_kb"]})
    if defect == "duplicate_call":
        return Corrections(references={"at_most": {"lookup_order": 1}})
    if defect == "swapped":
        return Corrections(references={"before": [["check_inventory", "create_exchange"]]})
    name = "lookup_order" if defect == "wrong_arg" else "check_inventory"
    call = next(one for one in calls if one.tool_name == name)
    return Corrections(calls=[{"tool_name": name, "input_arguments": call.input_arguments}])


def shares(number: int, *, verbose: bool = False) -> dict[str, list[list[bool]]]:
    """Return by defect what is true of each question: the `COLUMNS`."""
    found: dict[str, list[list[bool]]] = defaultdict(list)
    for defect, session, good in planted(number):
        made: Corrected = correct(session, session.session_id, said(defect, good), passing=[good])
        proof = made.proof
        found[defect].append(
            [
                proof.failed is Verdict.FAILED,
                proof.corrected is Verdict.PASSED,
                proof.passing == 1 and not proof.fails,
                proof.mutants > 0 and proof.caught >= ENOUGH * proof.mutants,
            ]
        )
        if verbose:
            print(defect, session.session_id, proof)
    return found


def main() -> None:
    """Print the table; exit with 1 below the floor."""
    numbers = [int(one) for one in sys.argv[1:] if one.isdecimal()]
    found: dict[str, Any] = shares(numbers[0] if numbers else 50, verbose="-v" in sys.argv)
    found["all"] = [row for rows in found.values() for row in rows]
    print(f"{'':16}number  {'  '.join(f'{name:>10}' for name in COLUMNS)}")
    for defect, rows in found.items():
        columns = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        print(f"{defect:16}{len(rows):6}  {'  '.join(f'{share:10.1%}' for share in columns)}")
    if min(columns) < FLOOR:
        sys.exit(f"below the floor of {FLOOR:.0%}")


if __name__ == "__main__":
    main()
