"""Compare this checkout with another one: the tables that both derive, and the time that both take.

    python tests/benchmarks/compare.py tables ../other spans.jsonl recordings/
    python tests/benchmarks/compare.py speed ../other spans.jsonl golden.json --runs 5

Each checkout runs in its own environment (`.venv`), if it has one. `tables` imports each file (of folders,
all files) with both checkouts and lists the rows that differ. `speed` imports and grades in alternation, so
that a busy machine slows both down, and prints the CPU time of each checkout and the ratios of the pairs:
below 1, this checkout is faster.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

HERE = Path(__file__).parents[2]
# What differs between any two runs: the run and steps of derivation, its rules' fingerprint, arrival times.
IGNORED = {"batch", "fingerprint", "time_ns of arrivals", "records", "number of steps"}
IMPORT_EACH = """
import sys, spangrade
for number, path in enumerate(sys.argv[2:]):
    try:
        spangrade.open(f"{sys.argv[1]}/{number}.duckdb", on_problem=lambda problem: None).import_files(path)
    except spangrade.SpangradeError:
        pass
"""


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment in which Python runs a checkout."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": str(checkout.resolve() / "src")}


def python(checkout: Path) -> str:
    """Return the Python of a checkout's own environment, which has its entry points, else this one."""
    own = checkout / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def differences(one: Path, other: Path) -> Iterable[str]:
    """Yield a line for each table of two databases whose rows differ."""
    with duckdb.connect() as connection:
        for name, path in (("one", one), ("other", other)):
            connection.execute(f"ATTACH '{path}' AS {name} (READ_ONLY)")
        tables = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'one' "
            "INTERSECT SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'other'"
        ).fetchall()
        for schema, table in sorted(tables):
            columns = connection.execute(
                "SELECT column_name FROM duckdb_columns() "
                "WHERE database_name = 'other' AND schema_name = $schema AND table_name = $table",
                {"schema": schema, "table": table},
            ).fetchall()
            kept = [c for (c,) in columns if c not in IGNORED and f"{c} of {table}" not in IGNORED]
            if not kept:
                continue
            selected = ", ".join(f'"{column}"::VARCHAR' for column in kept)
            for left, right in (("one", "other"), ("other", "one")):
                rows = connection.execute(
                    f"SELECT {selected} FROM {left}.{schema}.{table} EXCEPT ALL "
                    f"SELECT {selected} FROM {right}.{schema}.{table} LIMIT 3"
                ).fetchall()
                if rows:
                    yield f"{one.name} {schema}.{table}: only in {left}: {str(rows)[:1000]}"


def compare_tables(other: Path, paths: Sequence[Path]) -> int:
    """Import files with both checkouts; return how many databases differ."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    files = [file.resolve() for file in files if file.is_file()]
    differing = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, checkout in (("here", HERE), ("other", other)):
            (Path(folder) / name).mkdir()
            command = [python(checkout), "-c", IMPORT_EACH, f"{folder}/{name}", *files]
            subprocess.run(command, env=environment(checkout), check=True)
        for number, file in enumerate(files):
            databases = [Path(folder) / name / f"{number}.duckdb" for name in ("here", "other")]
            if not any(database.exists() for database in databases):
                continue
            compared += 1
            if found := list(differences(*databases)):
                differing += 1
                print(file, *found, sep="\n  ")
    print(f"{compared} databases of {len(files)} files compared, {differing} differ")
    return differing


def cpu_s(checkout: Path, *command: str | Path) -> float:
    """Run a command of a checkout; return the CPU seconds of all its processes."""
    process = subprocess.Popen(
        [python(checkout), "-m", "spangrade", *command],
        env=environment(checkout),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    problems = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if (code := os.waitstatus_to_exitcode(status)) not in {0, 1, 4}:
        sys.exit(f"{checkout}: {' '.join(map(str, command))}: exit {code}: {problems[-1000:]}")
    return usage.ru_utime + usage.ru_stime


def compare_speed(other: Path, spans: Path, golden: Path, runs: int) -> None:
    """Import and grade with both checkouts in turn; print the CPU seconds of each and the ratios."""
    seconds: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            for name, checkout in (("here", HERE), ("other", other)):
                db = f"{folder}/{name}{number}.duckdb"
                for step, command in (
                    ("import", ["import", spans]),
                    ("derive", ["doctor", "--derive-all"]),
                    ("grade", ["grade", golden, "--format", "json"]),
                ):
                    took = cpu_s(checkout, *command, "--db", db)
                    seconds.setdefault((step, name), []).append(took)
                Path(db).unlink()
    for step in ("import", "derive", "grade"):
        here, there = seconds[step, "here"], seconds[step, "other"]
        ratios = sorted(a / b for a, b in zip(here, there, strict=True))
        print(
            f"{step:8} here {min(here):6.2f} s, other {min(there):6.2f} s at least; "
            f"ratio {statistics.median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def main() -> None:
    """Run the comparison that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["tables", "speed"])
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.what == "tables":
        sys.exit(bool(compare_tables(arguments.other, arguments.paths)))
    compare_speed(arguments.other, *arguments.paths, arguments.runs)


if __name__ == "__main__":
    main()
