"""Measure whole commands over shapes of sessions: CPU time, and how it grows with their number.

    python tests/benchmarks/commands.py                       # this checkout
    python tests/benchmarks/commands.py --beside ../other     # each row of another checkout, too

Each figure is user and system time of a process of its own, where there are several sizes without that of
`spangrade --version`, on a database that the same checkout has made, with the Python of its `.venv` if it has
one. The exponent is that of the last doubling: 1 is linear. Seconds by the clock, and MB, the most memory of
one process, are of the last size. What a checkout cannot do is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
import duckdb
from benchmarks.shapes import DATASET, asked, conversations, sample_sessions

ROOT = Path(__file__).parents[2]
SAMPLE = DATASET / "customer_service_golden.json"
_SIZES = (1_000, 2_000)
_SESSIONS_OF_RUNS = 100
SESSION_OF_MANY = "session-c4ca4238a0b923820dcc509a6f75849b"
_WRITE_MANY = """
import sys, pathlib, many_sessions
many_sessions.write_sessions(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
"""
_AGENT = "def reply(text):\n    return text\n"


_TWO_RUNS = ("grade {golden} --db {db} --run a", "grade {golden} --db {db} --run b")
# What reads or writes runs; `grade` adds one to those that there are.
_OF_RUNS = (
    "runs --db {db}",
    "sessions --db {db}",
    "show s0 --db {db}",
    "compare a b --db {db}",
    "trend passed --db {db}",
    "grade {golden} --db {db}",
    "delete --session s0 --db {db}",
)


class Row(NamedTuple):
    """A command over a shape; `{db}`, `{golden}`, `{spans}` and `{out}` stand for paths."""

    shape: str
    command: str
    sizes: tuple[int, ...] = _SIZES
    before: tuple[str, ...] = ()  # commands that are not measured
    workers: int = 1


ROWS = (
    Row("sample", "grade {golden} --db {db}"),
    Row("sample", "grade {golden} --db {db} --metric cost<=0.0002 --out {out} --reports junit,markdown,json"),
    Row("sample", "grade {golden} --db {db} --metric cost<=0.0002 --out {out}"),
    Row("agents", "grade {golden} --db {db} --metric cost<=0 --out {out}"),
    Row("long", "grade {golden} --db {db} --out {out}", (50, 100)),
    Row("apart", "grade {golden} --db {db}"),
    Row("values", "grade {golden} --db {db}"),
    Row("alike", "grade {golden} --db {db}"),
    Row("identical", "grade {golden} --db {db}"),
    Row("sample", "sessions --db {db}"),
    Row("sample", "sessions --db {db} --all"),
    Row("many", "sessions --db {db} --all", (25_000, 50_000)),
    Row("sample", "lint --db {db}"),
    Row("many", "lint --db {db}", (25_000, 50_000)),
    Row("sample", "audit {golden} --db {db}", (125, 250)),
    Row("apart", "compare a b --db {db}", _SIZES, _TWO_RUNS),
    Row("sample", "delete --session conversation-0-1 --db {db}"),
    Row("many", f"delete --session {SESSION_OF_MANY} --db {{db}}", (25_000, 50_000)),
    Row("many", "trend cost --db {db}", (25_000, 50_000)),
    *(Row("runs", command, (50, 100), _TWO_RUNS) for command in _OF_RUNS),
    Row("sample", "show conversation-0-1 --db {db}", (500,)),
    Row("apart", "run {agent} {golden} --db {db}", (250, 500)),
    Row("sample", "sessions --help", (500,)),
    Row("sample", "--help", (500,)),
    Row("sample", "import {spans} --db {db}"),
    Row("sample", "import {spans} --db {db}", workers=2),
    Row("apart", "grade {golden} --db {db} --session s0", (2_500, 5_000)),
    Row("apart", "grade {golden} --db {db}", (10_000, 20_000)),
    Row("apart", "grade {golden} --db {db}", (10_000, 20_000), workers=2),
    Row("interleaved", "import {spans} --db {db}", (100, 200)),
    Row("one session", "import {spans} --db {db}", (8_000, 16_000)),
    Row("long", "import {spans} --db {db}", (50, 100)),
)


def recorded(shape: str, size: int, folder: Path) -> tuple[Path, Path]:
    """Write the spans and the golden questions of a shape; return both files."""
    spans, golden = folder / f"{shape} {size}.jsonl", folder / f"{shape} {size}.json"
    if spans.exists():
        return spans, golden
    lines: Iterable[str]
    if shape in ("sample", "interleaved", "one session"):
        shutil.copy(SAMPLE, golden)
        lines = {
            "sample": lambda: sample_sessions(size),
            "interleaved": lambda: conversations(size, 10, 3),
            "one session": lambda: conversations(1, size // 8, 3),
        }[shape]()
    else:
        questions, lines = asked("apart", _SESSIONS_OF_RUNS) if shape == "runs" else asked(shape, size)
        golden.write_text(json.dumps({"golden_questions": questions}), encoding="utf-8")
    with spans.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return spans, golden


class Took(NamedTuple):
    """What a command took: user and system time, seconds of the clock, and memory."""

    cpu_s: float
    wall_s: float
    most_mb: float


def took(checkout: Path, command: Iterable[str], workers: int = 1) -> Took | None:
    """Return what a command of a checkout took, None if it does not have it."""
    started = time.monotonic()
    process = subprocess.Popen(
        [python_of(checkout), "-m", "spangrade", *command],
        env={**environment(checkout), "SPANGRADE_WORKERS": str(workers)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1, 4):
        return None
    return Took(usage.ru_utime + usage.ru_stime, time.monotonic() - started, usage.ru_maxrss / 1024)


def python_of(checkout: Path) -> str:
    """Return the Python of a checkout, else the one that runs this."""
    own = checkout / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment in which a Python imports a checkout."""
    return {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout / 'tests'}"}


def imported(checkout: Path, shape: str, size: int, folder: Path, db: Path) -> None:
    """Make a database of a shape with a checkout: once, and then a copy of it."""
    made = folder / f"{checkout.parent.name} {checkout.name} {shape} {size}.duckdb"
    if not made.exists() and shape == "many":
        command = [python_of(checkout), "-c", _WRITE_MANY, str(made), str(size)]
        subprocess.run(command, env=environment(checkout), check=True, stdout=subprocess.DEVNULL)
    elif not made.exists():
        spans, _ = recorded(shape, size, folder)
        took(checkout, ["import", str(spans), "--db", str(made)])
    shutil.copy(made, db)


def repeat_runs(db: Path, times: int) -> None:
    """Store each run of a database again and again, with its verdicts and scores, an hour later each time."""
    with duckdb.connect(db) as connection:
        tables = connection.execute(
            "SELECT duckdb_tables.table_name, bool_or(column_name = 'graded_at') FROM duckdb_columns() "
            "JOIN duckdb_tables() USING (table_oid) WHERE duckdb_tables.schema_name = 'main' "
            "GROUP BY ALL HAVING bool_or(column_name = 'run_id')"
        ).fetchall()
        for table, has_time in tables:
            later = ", graded_at + to_hours(n) AS graded_at" if has_time else ""
            connection.execute(
                f"INSERT INTO {table} SELECT {table}.* REPLACE (run_id || n AS run_id{later}) "
                f"FROM {table}, range(1, {times}) AS numbers(n)"
            )


def measured(row: Row, checkout: Path, folder: Path) -> Iterator[Took | None]:
    """Yield what a row took by size."""
    start = took(checkout, ["--version"])
    for size in row.sizes:
        spans, golden = recorded(row.shape, size, folder)
        made = folder / "made"  # also the spool beside a database
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        db, out = made / "measured.duckdb", made / "out"
        agent = folder / "agent.py"
        agent.write_text(_AGENT, encoding="utf-8")
        paths: dict[str, Path | str] = {
            "{db}": db,
            "{golden}": golden,
            "{spans}": spans,
            "{out}": out,
            "{agent}": f"{agent}:reply",
        }

        def words(text: str, paths: dict[str, Path | str] = paths) -> list[str]:
            return [str(paths.get(word, word)) for word in text.split()]

        if not row.command.startswith("import"):
            imported(checkout, row.shape, size, folder, db)
        for text in row.before:
            took(checkout, words(text))
        if row.shape == "runs":
            repeat_runs(db, size // len(row.before))
        whole = took(checkout, words(row.command), row.workers)
        if whole is None or start is None or len(row.sizes) == 1:
            yield whole
        else:
            yield whole._replace(cpu_s=max(whole.cpu_s - start.cpu_s, 0.01))


def line_of(times: list[Took | None]) -> str:
    """Return the times of a row, their exponent and the memory as cells of a table."""
    shown = " · ".join("–" if each is None else f"{each.cpu_s:.2f}" for each in times)
    last = times[-1]
    if last is None:
        return f"{shown} | | |"
    before = times[-2] if len(times) > 1 else None
    exponent = "" if before is None else f"{math.log2(last.cpu_s / before.cpu_s):.2f}"
    return f"{shown} | {exponent} | {last.wall_s:.2f} | {last.most_mb:.0f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", type=Path, help="another checkout, of which each row is measured first")
    parser.add_argument("--only", default="", help="rows whose shape or command has this text")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # doubles start times
    checkouts = [*([arguments.beside.resolve()] if arguments.beside else []), ROOT]
    print("| shape | sizes | command | workers |" + " CPU s | exponent | wall s | MB |" * len(checkouts))
    print("|---|---|---|---:|" + "---:|---:|---:|---:|" * len(checkouts))
    with tempfile.TemporaryDirectory() as name:
        for row in ROWS:
            if arguments.only in f"{row.shape} {row.command}":
                sizes = " · ".join(f"{size:,}" for size in row.sizes)
                cells = [line_of(list(measured(row, each, Path(name)))) for each in checkouts]
                shown = f"{row.shape} | {sizes} | `{row.command}` | {row.workers}"
                print(f"| {shown} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
