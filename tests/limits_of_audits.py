"""Simulate the limits that `audit --write` proposes: how often good sessions exceed them, what they catch.

python tests/limits_of_audits.py [FRESH]    FRESH good sessions per setting, default 10,000 (7 s of CPU)

For each number of questions, of sessions of a question and each spread of cost and time (log-normal, and
gamma of the same variance), limits are made anew, and for each some good sessions are drawn. One fails if it
exceeds the limit of its question's cost or time. Fails if more than 0.5% of them do in a setting, or if fewer
than 90% of sessions of four times the cost are caught where more than 5% of the limits could be written.
"""

from __future__ import annotations

import math
import sys
from itertools import product
from random import Random
from typing import NamedTuple

from spangrade.evaluator.apps.audit.proposals import limit_of, pooled_spread

QUESTIONS, SESSIONS, SPREADS = (1, 5, 20), (5, 10), (0.05, 0.1, 0.2, 0.3, 0.5)
FRESH_OF_EACH = 20  # per golden file
SLACKS = (1.5, 2.0)  # of cost and time
MOST_FAILING, LEAST_CAUGHT = 0.005, 0.9


class Shares(NamedTuple):
    """The shares of limits that are written, of good sessions that fail, and of dear ones that are caught."""

    written: float
    failing: float
    caught: float


def drawn(random: Random, shape: str, spread: float) -> float:
    """Return a value around 1 whose standard deviation is about `spread`."""
    if shape == "log-normal":
        return random.lognormvariate(0.0, spread)
    return random.gammavariate(1 / spread**2, spread**2)


def simulate(random: Random, shape: str, questions: int, sessions: int, spread: float, fresh: int) -> Shares:
    """Return the shares of one setting."""
    written = failing = caught = dear = total = limits = 0
    while total < fresh:
        scales = [(math.exp(random.gauss(0, 1)), math.exp(random.gauss(0, 1))) for _ in range(questions)]
        observed = [
            [[scale * drawn(random, shape, spread) for _ in range(sessions)] for scale in pair]
            for pair in scales
        ]
        spreads = [pooled_spread([pair[kind] for pair in observed]) for kind in range(2)]
        made = [[limit_of(pair[kind], spreads[kind], SLACKS[kind]) for kind in range(2)] for pair in observed]
        for number in range(FRESH_OF_EACH):
            place = number % questions
            values = [scale * drawn(random, shape, spread) for scale in scales[place]]
            total += 1
            exceeds = [
                isinstance(limit, float | int) and value > limit
                for limit, value in zip(made[place], values, strict=True)
            ]
            failing += any(exceeds)
            cost = made[place][0]
            limits += 1
            if isinstance(cost, float | int):
                written += 1
                dear += 1
                caught += 4 * values[0] > cost
    return Shares(written / limits, failing / total, caught / dear if dear else 1.0)


def main() -> int:
    """Print a row per setting; return 1 if a share is not as promised."""
    fresh = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    random = Random(0)
    wrong = []
    print("shape       questions  sessions  spread  written  failing  caught at x4")
    rows = []
    for setting in product(("log-normal", "gamma"), QUESTIONS, SESSIONS, SPREADS):
        shares = simulate(random, *setting, fresh)
        rows.append(shares)
        shape, questions, sessions, spread = setting
        print(
            f"{shape:10}  {questions:9}  {sessions:8}  {spread:6.2f}  {shares.written:7.1%}  "
            f"{shares.failing:7.2%}  {shares.caught:12.1%}"
        )
        # Of few sessions a share may be higher by chance.
        if shares.failing > MOST_FAILING + 3 * math.sqrt(MOST_FAILING / fresh) or (
            shares.written > 0.05
            and shares.caught < LEAST_CAUGHT - 3 * math.sqrt(0.09 / (fresh * shares.written))
        ):
            wrong.append(setting)
    failing = sum(row.failing for row in rows) / len(rows)
    print(f"all: {failing:.3%} of good sessions fail")
    for setting in wrong:
        print(f"not as promised: {setting}")
    return 1 if wrong or failing > MOST_FAILING else 0


if __name__ == "__main__":
    sys.exit(main())
