"""What a script of faults found, and how to count it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from google.protobuf.json_format import MessageToJson
from receiving import request

from spangrade.tracer.store import Store

GOLDEN = """{"golden_questions": [{
    "id": "q", "user_inputs": ["hi"], "agents_evaluated": ["shop"],
    "reference_data": {"reference_trajectory": ["shop"]}
}]}"""
LOCKED = "another process has this database open"


class Outcome(NamedTuple):
    """Counts of spans after a fault: acknowledged, stored, lost of them, and stored more than once.

    `times` is how often the fault was caused. Memory is in MiB, None where it was not measured. `problems`
    are sentences about anything else that must not happen.
    """

    fault: str
    times: int
    acknowledged: int
    stored: int
    lost: int
    doubled: int
    note: str = ""
    memory_start: int | None = None
    memory_end: int | None = None
    problems: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing was lost or doubled, and there were no other problems."""
        return not (self.lost or self.doubled or self.problems)


def stored(db: Path) -> dict[int, int]:
    """Return how many rows each span has, by the number that `request` gave it; open it for writing."""
    with Store.open(db, wait_s=60) as store:
        rows = store.query("SELECT span_id, count(*) FROM spans GROUP BY 1")
    return {int(span_id, 16) - 1: n for span_id, n in rows}


def compare(
    fault: str,
    times: int,
    acknowledged: Iterable[int],
    rows: dict[int, int],
    *,
    note: str = "",
    problems: Iterable[str] = (),
) -> Outcome:
    """Return the outcome of a fault: what is stored against what was acknowledged."""
    numbers = set(acknowledged)
    doubled = sum(count > 1 for count in rows.values())
    return Outcome(
        fault,
        times,
        len(numbers),
        sum(rows.values()),
        len(numbers - rows.keys()),
        doubled,
        note,
        problems=tuple(problems),
    )


def command(*arguments: str | Path) -> list[str]:
    """Return the command line of a command of spangrade."""
    return [sys.executable, "-m", "spangrade", *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command of spangrade to its end."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False)


def spans_file(path: Path, first: int, count: int, session: str, text: str = "x" * 200) -> Path:
    """Write spans of one session to a file that `spangrade import` reads."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": session, "text": text}
    path.write_text(MessageToJson(request(first, count, **attributes), indent=None))
    return path


def random_text(size: int) -> str:
    """Return text that a database cannot compress below half of its size."""
    return os.urandom(size // 2).hex()
