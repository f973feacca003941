"""Make mistakes in the code, one at a time, and see whether the quick suite notices: mutation testing.

    python tests/mutation/run.py [--sample 200] [--seed 1] [--workers 2] [FILE ...]

The mutants are a seeded sample of the mistakes that people make (`mutants.py`), each room with its share by
lines, of modules, queries and templates. On each, tests of the quick suite run that execute its line, quick
ones first, within a budget; a mutant is killed when one of them fails. The tests run in copies of the
checkout. A mutant in `equivalent.toml` changes no behaviour, for the reason given there.

Prints each mutant that survived, and a table; exits with 1 if less than 90% are killed or equivalent. In the
folder `--work` it keeps which tests execute which lines, and which test killed a mutant: what is known is not
run again while the code and the test stay the same, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import forked
from mutants import Mutant, equivalents, room_of, sample
from selection import Tests, combine, digest, measure, select

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tracer", "converters", "evaluator")
# Of the quick suite what runs on every machine: the others have environments of their own.
TESTS = ("tests/tracer", "tests/converters", "tests/evaluator", "tests/privacy", "tests/test_functions.py")
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
LEAST = 0.9
FIRST = 12  # tests, before the others of the budget
VERDICTS = ("killed", "equivalent", "survived")

checkout = Path()  # a worker's own


class Task(NamedTuple):
    """A mutant and the tests to run on it, with their durations."""

    mutant: Mutant
    tests: dict[str, float]


class Result(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    killed_by: str | None
    tests: int
    seconds: float


def start_worker(numbers: Any, folder: Path) -> None:
    """Copy the checkout for a worker and load what its children need."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and end the child
    global checkout
    with numbers.get_lock():
        numbers.value += 1
        checkout = folder / str(numbers.value) / "checkout"
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name, follow_symlinks=False)
    if (shared := ROOT.parent / "shared").exists():  # the recordings that some tests read
        (checkout.parent / "shared").symlink_to(shared.resolve())
    forked.load(checkout)


def measure_file(work: Path, test_file: str) -> dict[str, Any]:
    """Measure a test file, or return what is known if it is the same as then."""
    text = (ROOT / test_file).read_text()
    data = sorted((ROOT / "tests" / "cases").rglob("*.json")) if "from cases import" in text else []
    key = digest(test_file, text, *(one.read_text("utf-8") for one in data))
    kept = work / "tests" / f"{key}.json"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(measure(checkout, test_file, FOLDERS)))
    known: dict[str, Any] = json.loads(kept.read_text())
    return known


def failing(chosen: Mapping[str, float]) -> str | None:
    """Run tests, given with their durations, in the worker's checkout; return the first that fails."""
    names = list(chosen)
    for part in (names[:FIRST], names[FIRST:]):
        if part:
            files = sorted({test.partition("::")[0] for test in part})
            limit_s = 20 + 10 * sum(chosen[test] for test in part)
            if failed := forked.run(checkout, ["-x", *files], part, limit_s=limit_s).failed:
                return failed[0]
    return None


def write_source(path: str, source: str) -> None:
    """Write a module in the worker's checkout and remove its bytecode: Python compares only size and time."""
    sys.dont_write_bytecode = True
    file = checkout / path
    for kept in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        kept.unlink()
    file.write_text(source)


def run_mutant(task: Task) -> Result:
    """Run the mutant's tests."""
    started = time.monotonic()
    path = task.mutant.place.path
    original = (checkout / path).read_text()
    write_source(path, task.mutant.source)
    try:
        killed_by = failing(task.tests)
    finally:
        write_source(path, original)
    return Result(task.mutant, killed_by, len(task.tests), time.monotonic() - started)


def check_unchanged(task: Task) -> None:
    """Raise RuntimeError if one of the mutant's tests fails without it."""
    if test := failing(task.tests):
        raise RuntimeError(f"{test} fails in {task.mutant.place.path} as it is")


def measure_tests(pool: Any, work: Path, paths: Sequence[str]) -> Tests:
    """Return which tests execute which lines; print those that fail without a mutant, and leave them out."""
    measured = []
    futures = [pool.submit(measure_file, work, file) for file in files_in(paths, "test_*.py")]
    for one in (future.result() for future in as_completed(futures)):
        measured.append(one)
        for test in one["failed"]:
            print(f"left out, fails without a mutant: {test}", flush=True)
    return combine(ROOT, measured)


def run_sample(
    pool: Any,
    work: Path,
    tests: Tests,
    mutants: Sequence[Mutant],
    equivalent: Mapping[tuple[str, str, str], str],
) -> Counter[tuple[str, str]]:
    """Run mutants and print what became of each; return how many there are by folder and verdict."""
    log = work / "killed.jsonl"
    log.touch()
    killed = {
        line["mutant"]
        for line in map(json.loads, log.read_text().splitlines())
        if line["by"] == text_of(line["test"])
    }
    counts: Counter[tuple[str, str]] = Counter()
    left: list[Task] = []
    for mutant in mutants:
        if (mutant.place.path, mutant.before, mutant.after) in equivalent:
            counts[room_of(mutant.place.path), "equivalent"] += 1
        elif digest(mutant.place.path, mutant.source) in killed:
            counts[room_of(mutant.place.path), "killed"] += 1
        else:
            left.append(Task(mutant, select(ROOT, tests, mutant.place)))
    list(pool.map(check_unchanged, left[:4]))
    for result in (
        future.result() for future in as_completed([pool.submit(run_mutant, one) for one in left])
    ):
        mutant = result.mutant
        verdict = "killed" if result.killed_by else "survived"
        counts[room_of(mutant.place.path), verdict] += 1
        print(f"{counts.total()}/{len(mutants)} {verdict} in {result.seconds:.1f} s: ", end="")
        if result.killed_by:
            print(f"{mutant.place.path}:{mutant.place.line} by {result.killed_by}", flush=True)
            name = digest(mutant.place.path, mutant.source)
            line = {"mutant": name, "test": result.killed_by, "by": text_of(result.killed_by)}
            with log.open("a") as file:
                file.write(f"{json.dumps(line)}\n")
        else:
            print(f"{result.tests} tests pass\n{mutant.diff}", flush=True)
    return counts


def print_table(counts: Counter[tuple[str, str]]) -> float:
    """Print the verdicts of each room; return the share of all that is killed or equivalent."""
    print(f"\n{'':24} {'mutants':>9}", *(f"{verdict:>11}" for verdict in VERDICTS), f"{'share':>7}")
    share = 1.0
    rooms = sorted({room for room, _ in counts})
    for name, of in [*((room, [room]) for room in rooms), ("all", rooms)]:
        row = [sum(counts[room, verdict] for room in of) for verdict in VERDICTS]
        share = 1 - row[-1] / sum(row) if sum(row) else 1.0
        print(f"{name:24} {sum(row):9}", *(f"{number:11}" for number in row), f"{share:7.1%}")
    return share


def files_in(paths: Iterable[str], *patterns: str) -> list[str]:
    """Return the files of these patterns, and those in folders, from the top of the checkout."""
    found: list[Path] = []
    for path in (ROOT / path for path in paths):
        found += sorted(f for pattern in patterns for f in path.rglob(pattern)) if path.is_dir() else [path]
    return [
        str(path.relative_to(ROOT)) for path in found if path.is_file() and "__pycache__" not in path.parts
    ]


def mutated_files(paths: Iterable[str]) -> list[str]:
    """Return modules, queries and templates; a migration of a store is never changed again."""
    return [path for path in files_in(paths, "*.py", "*.sql", "*.html") if "/migrations/" not in path]


def text_of(test: str) -> str:
    """Return a name for the text of a test's file, the same while the file is; a crash has none."""
    file = ROOT / test.partition("::")[0]
    return digest(file.read_text()) if file.is_file() else ""


def main() -> int:
    """Run the sample; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", default=FOLDERS, metavar="FILE", help="modules or folders")
    parser.add_argument("--sample", type=int, default=200, help="how many mutants (200)")
    parser.add_argument("--seed", type=int, default=1, help="another seed takes other mutants (1)")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="PATH", help="test files or folders")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="kept for the next run")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and end the workers
    equivalent = equivalents(ROOT, EQUIVALENT)  # first: an entry that is out of date ends the run
    mutants, places = sample(ROOT, mutated_files(options.files), options.sample, options.seed)
    print(f"{len(mutants)} mutants of {places}, seed {options.seed}", flush=True)
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="spangrade-mutation-") as folder:
        work = options.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        own = (context.Value("i", 0), Path(folder))
        # A worker that ends unexpectedly ends the run, which goes on where it was with the same --work.
        with ProcessPoolExecutor(options.workers, context, start_worker, own) as pool:
            tests = measure_tests(pool, work, options.tests)
            counts = run_sample(pool, work, tests, mutants, equivalent)
    return int(print_table(counts) < LEAST)


if __name__ == "__main__":
    sys.exit(main())
