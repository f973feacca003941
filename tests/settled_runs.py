"""How many questions `run --stop-when-settled` asks, and how often it errs: `python tests/settled_runs.py`.

Each run asks up to as many questions as there are; each is broken, fixed or the same by chance. It prints the
table of docs/running.md, and fails if a loss of 15 points takes more than 75 questions or is shown in fewer
than 99% of the runs of 400, or if without a loss more than 2.5%, and what chance adds, are called worse.
"""

from __future__ import annotations

import math
import random
import sys
from typing import NamedTuple

from spangrade.evaluator.grading.settled import Settlement
from spangrade.evaluator.statistics.sequential import LEVEL, settlement

# The shares of the questions that break and that are fixed.
LOSSES = ((0.17, 0.02), (0.20, 0.05), (0.25, 0.10))
NO_LOSSES = ((0.02, 0.02), (0.05, 0.05), (0.10, 0.10), (0.25, 0.25))


class Asked(NamedTuple):
    """How a run ended: after how many of its questions, and what was known."""

    questions: int
    outcome: Settlement


def asked(chance: random.Random, break_: float, fix: float, questions: int) -> Asked:
    """Return how a run ends that asks question after question until it is settled."""
    broken = fixed = 0
    for number in range(1, questions + 1):
        drawn = chance.random()
        broken += drawn < break_
        fixed += break_ <= drawn < break_ + fix
        if (known := settlement(broken, fixed, questions - number)) is not Settlement.OPEN:
            return Asked(number, known)
    return Asked(questions, Settlement.OPEN)


class Figures(NamedTuple):
    """The mean number of questions, and the shares of the runs that are called worse, and that end early."""

    questions: float
    worse: float
    early: float


def figures(break_: float, fix: float, questions: int, runs: int) -> Figures:
    chance = random.Random(f"{break_} {fix} {questions}")
    found = [asked(chance, break_, fix, questions) for _ in range(runs)]
    return Figures(
        sum(one.questions for one in found) / runs,
        sum(one.outcome is Settlement.WORSE for one in found) / runs,
        sum(one.questions < questions for one in found) / runs,
    )


def main(runs: int) -> int:
    print("| break | are fixed | questions at hand | asked on average | called worse | settled early |")
    print("|---:|---:|---:|---:|---:|---:|")
    erred = False
    for break_, fix in (*LOSSES, *NO_LOSSES):
        for questions in (400, 60):
            found = figures(break_, fix, questions, runs)
            print(
                f"| {break_:.0%} | {fix:.0%} | {questions} | {found.questions:.0f} | {found.worse:.1%} "
                f"| {found.early:.0%} |"
            )
            by_chance = 3 * math.sqrt(LEVEL * (1 - LEVEL) / runs)
            erred |= break_ == fix and found.worse > LEVEL + by_chance
            erred |= (break_, fix, questions) == (0.17, 0.02, 400) and (
                found.questions > 75 or found.worse < 0.99
            )
    return int(erred)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
