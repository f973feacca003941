"""Measure the memory of a grade of many sessions with a golden question each, and fail above a limit.

    python tests/memory_of_grades.py 50000

The memory is the largest sum of the proportional set sizes (PSS) of all processes of the command, with one
worker. The limit is 200 MB for the program and DuckDB, and 8 kB for a session with its question of one turn
and one reference: 50,000 took 470 to 515 MB. Linux only.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.figures import run
from benchmarks.shapes import asked

_BASE_MB = 200
_PER_SESSION_MB = 0.008


def main(sessions: int) -> int:
    """Grade a number of sessions; return the exit code."""
    with tempfile.TemporaryDirectory() as name:
        spans, golden, db = Path(name, "spans.jsonl"), Path(name, "golden.json"), Path(name, "s.duckdb")
        questions, lines = asked("apart", sessions)
        golden.write_text(json.dumps({"golden_questions": questions}), encoding="utf-8")
        with spans.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        run("import", spans, "--db", db)
        grade = run("grade", golden, "--db", db)
    limit = _BASE_MB + _PER_SESSION_MB * sessions
    print(f"grade of {sessions:,} sessions: {grade.memory_mb:.0f} MB, at most {limit:.0f}")
    return 1 if grade.memory_mb > limit else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
