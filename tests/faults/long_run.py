"""The long run: every fault, one after another, and a table of their results.

Run: `python tests/faults/long_run.py [--short] [--only NAME]`. Exits with 1 if anything that was
acknowledged is missing or stored twice, or if anything else happened that must not.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults.damage import cut_spool, flip_bits, jump_clock, truncate_database
from faults.disk import fill_disk, fill_under_commands
from faults.foreign_databases import open_foreign
from faults.hostile_webhook import answer_anything
from faults.kill import kill_repeatedly
from faults.kill_commands import kill_commands, kill_deletes
from faults.outcome import Outcome
from faults.production_day import play
from faults.soak import soak

_TESTS = Path(__file__).parents[1]
FUZZERS = {
    "random spans are derived": ("evaluator/derive/test_hostile.py", "converters/spans/test_delivery.py"),
    "random arguments, and Ctrl-C at 36 moments, for every command": (
        "evaluator/cli/test_any_arguments.py",
        "evaluator/cli/test_every_command.py",
    ),
    "values planted in any stored column": ("evaluator/cli/test_planted_values.py",),
}


class Size(NamedTuple):
    """How often each fault is caused, and for how long everything runs at once."""

    receiver_kills: int
    command_kills: int
    delete_kills: int
    flips: int
    cuts: int
    disk_mb: int
    full_disks: int
    profile: str
    soak_s: float
    day_sessions: int
    watch_kills: int
    messages: int
    databases: int


FULL = Size(20, 30, 10, 100, 20, 64, 20, "long", 600, 2_000, 10, 200, 400)
SHORT = Size(2, 3, 1, 10, 3, 16, 2, "spangrade", 15, 100, 2, 20, 30)


def kill_receiver(folder: Path, kills: int) -> Outcome:
    """Kill a receiver under load."""
    outcome = kill_repeatedly(folder / "s.duckdb", kills, seed=0)
    doubled = outcome.stored if outcome.max_rows > 1 else 0
    counted = (outcome.acknowledged, outcome.stored, outcome.missing, doubled)
    return Outcome("kill -9 of the receiver", kills, *counted)


def fill_commands(folder: Path, times: int) -> Outcome:
    """Fill the disk of commands, in a folder of its own beside their files."""
    disk = folder / "disk"
    disk.mkdir()
    return fill_under_commands(disk, times, seed=0)


@contextmanager
def fuzzing(name: str, profile: str) -> Iterator[Callable[[], Outcome]]:
    """Run tests with random examples in a process of their own; yield a function that waits for the outcome.

    A profile of hypothesis says how many: 20,000 spans take longer than all else but the soak, so they run
    beside.
    """
    files = (str(_TESTS / file) for file in FUZZERS[name])
    command = [sys.executable, "-m", "pytest", "-m", "", "--hypothesis-show-statistics", *files]
    started = time.monotonic()
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(
            command, env={**os.environ, "HYPOTHESIS_PROFILE": profile}, stdout=output
        ) as process,
    ):

        def outcome() -> Outcome:
            code = process.wait()
            output.seek(0)
            text = output.read()
            examples = sum(int(count) for count in re.findall(r"(\d+) passing, 0 failing", text))
            problems = (text[-3000:],) if code or not examples else ()
            note = f"times: examples, none failed; done after {time.monotonic() - started:.0f} s"
            return Outcome(name, examples, 0, 0, 0, 0, note, problems=problems)

        try:
            yield outcome
        finally:
            process.kill()


def steps(size: Size, fuzzed: Sequence[Callable[[], Outcome]]) -> dict[str, Callable[[Path], Outcome]]:
    """Return the faults by name; each is caused in a folder of its own."""
    faults_by_name: dict[str, Callable[[Path], Outcome]] = {
        "receiver": lambda folder: kill_receiver(folder, size.receiver_kills),
        "commands": lambda folder: kill_commands(folder, size.command_kills, seed=0),
        "delete": lambda folder: kill_deletes(folder, size.delete_kills, seed=0),
        "flips": lambda folder: flip_bits(folder, size.flips, seed=0),
        "cuts": lambda folder: cut_spool(folder, size.cuts, seed=0),
        "truncate": truncate_database,
        "clock": jump_clock,
    }
    if os.geteuid() == 0:
        faults_by_name["disk"] = lambda folder: fill_disk(folder, size.disk_mb)
        faults_by_name["commands on a disk"] = lambda folder: fill_commands(folder, size.full_disks)
    else:
        print("Not run without root: full disks")
    faults_by_name["webhook"] = lambda folder: answer_anything(folder, size.messages, seed=0)
    faults_by_name["databases"] = lambda folder: open_foreign(folder, size.databases, seed=0)
    faults_by_name["day"] = lambda folder: play(folder, size.day_sessions, size.watch_kills, seed=0)
    faults_by_name["soak"] = lambda folder: soak(folder, size.soak_s)
    for name, one in zip(("fuzz", "arguments", "values"), fuzzed, strict=True):
        faults_by_name[name] = lambda _, one=one: one()  # type: ignore[misc]
    return faults_by_name


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as a Markdown table."""
    lines = [
        "| fault | times | acknowledged | stored | lost | doubled | MiB at start, end | notes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        memory = "" if outcome.memory_start is None else f"{outcome.memory_start}, {outcome.memory_end}"
        counts = (outcome.times, outcome.acknowledged, outcome.stored, outcome.lost, outcome.doubled)
        cells = (outcome.fault, *(f"{count:,}" for count in counts), memory, outcome.note)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Run the faults and print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--short", action="store_true", help="a few of each fault, 15 s of everything at once"
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="one fault, by its name")
    options = parser.parse_args()
    size = SHORT if options.short else FULL
    started = time.monotonic()
    outcomes = []
    with ExitStack() as fuzzers:
        fuzzed = [fuzzers.enter_context(fuzzing(name, size.profile)) for name in FUZZERS]
        for name, fault in steps(size, fuzzed).items():
            if options.only and name not in options.only:
                continue
            print(f"== {name}", flush=True)
            with tempfile.TemporaryDirectory(prefix="spangrade-") as folder:
                outcome = fault(Path(folder))
            outcomes.append(outcome)
            print(f"{'passed' if outcome.passed else 'FAILED'}: {outcome}", flush=True)
    minutes = (time.monotonic() - started) / 60
    form = "short form" if options.short else "full form"
    print(
        f"\n{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {form}, {minutes:.1f} min, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}\n\n{table(outcomes)}\n"
    )
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        print(f"FAILED: {outcome.fault}: {outcome.lost} lost, {outcome.doubled} doubled")
        for problem in outcome.problems:
            print(f"    {problem}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
