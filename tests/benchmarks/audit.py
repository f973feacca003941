"""How long `spangrade audit` takes: sessions of three calls, 20 mutants each, from the database to the diff.

    python tests/benchmarks/audit.py [SESSIONS] [QUESTIONS]

Prints the seconds of CPU and of the clock of one audit in this process, without the import of the sessions.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from otlp_sessions import Call, Said, write_golden, write_sessions

import spangrade
from spangrade.evaluator.apps.audit.audit import Fate


def main(sessions: int, questions: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="spangrade-audit-"))
    made = []
    for number in range(sessions):
        order = {"order": f"A-{number % questions}"}
        calls = [
            Call("find", order),
            Call("refund", order | {"amount": 5}),
            Call("mail", {"to": "a@b.example"}),
        ]
        made.append(
            (f"s{number}", [Said(f"Refund {number % questions}", "Done.", calls), Said("Thanks", "Bye.")])
        )
    write_sessions(folder / "spans.jsonl", made)
    asked = [
        {
            "id": f"q{number}",
            "user_inputs": [f"Refund {number}", "Thanks"],
            "reference_tool_interactions": [{"tool_name": "find"}, {"tool_name": "refund"}],
            "reference_response": "Bye.",
        }
        for number in range(questions)
    ]
    write_golden(folder / "golden.json", *asked)
    database = spangrade.open(folder / "a.duckdb")
    database.import_files(folder / "spans.jsonl")
    cpu, clock = time.process_time(), time.perf_counter()
    audit = database.audit(folder / "golden.json")
    print(
        f"{audit.sessions} sessions, {len(audit.tried)} mutants, {audit.total.fates[Fate.SURVIVED]} survived"
    )
    print(f"{time.process_time() - cpu:.1f} s of CPU, {time.perf_counter() - clock:.1f} s")


if __name__ == "__main__":
    main(*(int(argument) for argument in (sys.argv[1:] or ["1000", "50"])))
