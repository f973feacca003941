"""Measure whole commands over shapes of sessions: CPU time, and how it grows with their number.

    python tests/benchmarks/commands.py                       # this checkout
    python tests/benchmarks/commands.py --beside ../other     # each row of another checkout, too

Each figure is user and system time of a process of its own, where there are several sizes without that of
`spangrade --version`, on a database that the same checkout has made. The exponent is that of the last
doubling: 1 is linear. Times of a command that a checkout does not have are left out.
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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.shapes import DATASET, asked, conversations, sample_sessions

ROOT = Path(__file__).parents[2]
SAMPLE = DATASET / "customer_service_golden.json"
_SIZES = (1_000, 2_000)
_AGENT = "def reply(text):\n    return text\n"


class Row(NamedTuple):
    """A command over a shape; `{db}`, `{golden}`, `{spans}` and `{out}` stand for paths."""

    shape: str
    command: str
    sizes: tuple[int, ...] = _SIZES
    before: tuple[str, ...] = ()  # commands that are not measured


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
    Row("sample", "lint --db {db}"),
    Row("sample", "audit {golden} --db {db}", (125, 250)),
    Row(
        "apart",
        "compare a b --db {db}",
        _SIZES,
        ("grade {golden} --db {db} --run a", "grade {golden} --db {db} --run b"),
    ),
    Row("sample", "delete --session conversation-0-1 --db {db}"),
    Row("sample", "show conversation-0-1 --db {db}", (500,)),
    Row("apart", "run {agent} {golden} --db {db}", (250, 500)),
    Row("sample", "sessions --help", (500,)),
    Row("sample", "--help", (500,)),
    Row("sample", "import {spans} --db {db} --workers 1"),
    Row("interleaved", "import {spans} --db {db} --workers 1", (100, 200)),
    Row("one session", "import {spans} --db {db} --workers 1", (8_000, 16_000)),
    Row("long", "import {spans} --db {db} --workers 1", (50, 100)),
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
        questions, lines = asked(shape, size)
        golden.write_text(json.dumps({"golden_questions": questions}), encoding="utf-8")
    with spans.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return spans, golden


def cpu_s(checkout: Path, command: Iterable[str]) -> float | None:
    """Return the CPU seconds of a command of a checkout, None if it does not have it."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    process = subprocess.Popen(
        [sys.executable, "-m", "spangrade", *command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime if os.waitstatus_to_exitcode(status) in (0, 1, 4) else None


def imported(checkout: Path, shape: str, size: int, folder: Path, db: Path) -> None:
    """Make a database of a shape with a checkout: once, and then a copy of it."""
    made = folder / f"{checkout.name} {shape} {size}.duckdb"
    if not made.exists():
        spans, _ = recorded(shape, size, folder)
        cpu_s(checkout, ["import", str(spans), "--db", str(made)])
    shutil.copy(made, db)


def measured(row: Row, checkout: Path, folder: Path) -> Iterator[float | None]:
    """Yield the CPU seconds of a row by size."""
    start = cpu_s(checkout, ["--version"]) or 0
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
            cpu_s(checkout, words(text))
        took = cpu_s(checkout, words(row.command))
        yield took if took is None or len(row.sizes) == 1 else max(took - start, 0.01)


def line_of(row: Row, times: list[float | None]) -> str:
    """Return the times of a row and their exponent as cells of a table."""
    shown = " · ".join("–" if each is None else f"{each:.2f}" for each in times)
    if len(times) < 2 or times[-1] is None or times[-2] is None:
        return f"{shown} |"
    return f"{shown} | {math.log2(times[-1] / times[-2]):.2f}"


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
    print("| shape | sizes | command |" + " CPU s | exponent |" * len(checkouts))
    print("|---|---|---|" + "---:|---:|" * len(checkouts))
    with tempfile.TemporaryDirectory() as name:
        for row in ROWS:
            if arguments.only in f"{row.shape} {row.command}":
                sizes = " · ".join(f"{size:,}" for size in row.sizes)
                cells = [line_of(row, list(measured(row, each, Path(name)))) for each in checkouts]
                print(f"| {row.shape} | {sizes} | `{row.command}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
