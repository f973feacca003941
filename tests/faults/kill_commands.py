"""Kill commands at random moments: every span must be stored once, every deletion done whole or not at all.

Run: `python tests/faults/kill_commands.py [COMMANDS] [DELETIONS] [SEED]`.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults.outcome import GOLDEN, Outcome, command, compare, random_text, run, spans_file, stored

from spangrade.tracer.store import Store

SPANS = 200  # per session


def killed(arguments: list[str], after_s: float) -> bool:
    """Run a command and kill it after a time; return False if it ended before."""
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return True
    return False


def kill_commands(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill commands of all kinds; after each kill, repeat what it had to do and compare the spans."""
    moments = random.Random(seed)
    db, golden = folder / "s.duckdb", folder / "golden.json"
    golden.write_text(GOLDEN)
    expected: dict[str, range] = {}
    killed_by_name: Counter[str] = Counter()
    problems: list[str] = []
    number = 0

    def add_session() -> list[str | Path]:
        nonlocal number
        first, session = number * SPANS, f"s{number}"
        expected[session] = range(first, first + SPANS)
        number += 1
        return ["import", "--db", db, spans_file(folder / f"{session}.json", first, SPANS, session)]

    for _ in range(10):
        run(*add_session())
    last = time.monotonic()
    run("sessions", "--db", db)
    latest_s = time.monotonic() - last
    names = ["import", "doctor", "grade", "delete", "sessions", "lint", "sql"]
    while killed_by_name.total() < kills:
        name = names[killed_by_name.total() % len(names)]
        arguments: list[str | Path] = [name, "--db", db]
        if name == "import":
            arguments = add_session()
        elif name == "doctor":
            arguments += ["--derive-all"]
        elif name == "grade":
            arguments += [golden]
        elif name == "delete":
            session = next(iter(expected))
            arguments += ["--session", session]
        elif name == "sql":
            arguments += ["SELECT count(*) FROM spans"]
        if killed(command(*arguments), moments.uniform(0.2, 1.2) * latest_s):
            killed_by_name[name] += 1
        if name in ("import", "delete"):
            again = run(*arguments)
            if again.returncode and not (name == "delete" and "no session" in again.stderr):
                problems.append(f"{name} after a kill: {again.stderr.strip()}")
            if name == "delete":
                del expected[session]
        numbers = [n for spans in expected.values() for n in spans]
        rows = stored(db)
        if rows != dict.fromkeys(numbers, 1):
            problems.append(f"after a kill of {name}: {len(rows)} spans, expected {len(numbers)}")
    derived = run("doctor", "--derive-all", "--db", db)
    with Store.open(db, read_only=True) as store:
        sessions = {name for (name,) in store.query("SELECT session_id FROM derived.sessions")}
    if derived.returncode or sessions != expected.keys():
        problems.append(f"sessions differ from what was imported: {derived.stderr.strip()}")
    note = ", ".join(f"{count} {name}" for name, count in killed_by_name.items())
    return compare("kill -9 of a command", kills, numbers, rows, note=note, problems=problems)


def kill_deletes(folder: Path, kills: int, seed: int, sessions: int = 20) -> Outcome:
    """Kill `delete` on a copy of a database; the next opening must find or finish the deletion whole."""
    moments = random.Random(seed)
    whole = folder / "whole.duckdb"
    for number in range(sessions):
        session, first = "gone" if number % 2 else "kept", number * SPANS * 8
        file = spans_file(folder / "spans.json", first, SPANS * 8, session, random_text(4000))
        run("import", "--db", whole, file)
    size = whole.stat().st_size
    kept = {n for n in stored(whole) if n // (SPANS * 8) % 2 == 0}
    db = folder / "s.duckdb"
    arguments: list[str | Path] = ["delete", "--db", db, "--session", "gone"]
    shutil.copy(whole, db)
    started = time.monotonic()
    run(*arguments)
    whole_run_s = time.monotonic() - started
    states: Counter[str] = Counter()
    problems: list[str] = []
    lost = doubled = done = total = 0
    while done < kills:
        for path in folder.glob("s.duckdb*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copy(whole, db)
        db.chmod(0o600)
        if not killed(command(*arguments), moments.uniform(0.4, 1.0) * whole_run_s):
            continue
        done += 1
        copying = db.with_name("s.duckdb.shrinking").exists()
        rows = stored(db)
        states["copying" if copying else "whole" if len(rows) > len(kept) else "deleted"] += 1
        again = run(*arguments)
        if again.returncode and "no session" not in again.stderr:
            problems.append(f"delete after a kill: {again.stderr.strip()}")
        rows = stored(db)
        lost += len(kept - rows.keys())
        doubled += sum(n > 1 for n in rows.values())
        total += len(rows)
        left = sorted(path.name for path in folder.glob("s.duckdb*") if not path.name.endswith(".spool"))
        if rows.keys() != kept or left != ["s.duckdb"] or db.stat().st_size > size * 0.7:
            problems.append(f"left: {left}, {len(rows)} spans, {db.stat().st_size} bytes of {size} before")
        if db.stat().st_mode & 0o777 != 0o600:
            problems.append(f"mode {db.stat().st_mode & 0o777:o}")
    note = "killed while " + ", ".join(f"{state}: {count}" for state, count in states.items())
    return Outcome(
        "kill -9 of delete", kills, len(kept) * kills, total, lost, doubled, note, problems=tuple(problems)
    )


if __name__ == "__main__":
    counts = [int(argument) for argument in sys.argv[1:]]
    commands, deletions, seed = [*counts, *(30, 10, 0)[len(counts) :]]
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        outcomes = [
            kill_commands(Path(first), commands, seed),
            kill_deletes(Path(second), deletions, seed),
        ]
    for outcome in outcomes:
        print(outcome)
    sys.exit(not all(outcome.passed for outcome in outcomes))
