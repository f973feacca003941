"""How often `passed worse by MARGIN` passes a run that is worse by just the margin, and what it finds.

`python tests/false_passes.py 2000` prints the errors and the power, and exits with 1 if more than 2.5% of
wrong claims are accepted, or nothing changed and a metric is called better or worse in more than 5%: .ci/long
runs it.

With one session of each question the errors are exact: the chances of all outcomes that pass, by scipy, at
the worst share of questions that differ. With several sessions, of which the question decides a part, and
sessions that are missing because they failed, they are simulated, that number of times.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from math import sqrt
from typing import Any

import found_shifts
import numpy as np
import scipy

from spangrade.evaluator.statistics.comparison.by_question import ByQuestion
from spangrade.evaluator.statistics.comparison.compare import Change, compare
from spangrade.evaluator.statistics.comparison.condition import questions_for
from spangrade.evaluator.statistics.comparison.exact import ALPHA, MAX_EXACT, at_least_p, at_most_p, score
from spangrade.evaluator.statistics.comparison.pairs import OneSide, Pairs
from spangrade.evaluator.statistics.comparison.sample import PASSED
from spangrade.evaluator.statistics.intervals import QUANTILE

MARGINS = (0.05, 0.1, 0.15)
NUMBERS = (*range(2, 61), *range(70, MAX_EXACT + 1, 10))
BEYOND = (301, 500, 1000)
SIMULATED = (2, 5, 10, 20, 30, 60, 100, 300)
_SHARES = 60


def outcomes(questions: int) -> tuple[Any, Any]:
    """Return all numbers of questions that gained and lost."""
    gained, lost = np.meshgrid(np.arange(questions + 1), np.arange(questions + 1), indexing="ij")
    inside = gained + lost <= questions
    return gained[inside], lost[inside]


def passing(questions: int, margin: float) -> Any:
    """Return which outcomes pass: their p-value depends on the score alone, so its bound is searched for."""
    gained, lost = outcomes(questions)
    scores = np.vectorize(score)(gained, lost, questions, -margin)
    order = np.argsort(-scores)
    low, high = 0, len(order)  # how many pass, the first of the order
    while low < high:
        middle = (low + high + 1) // 2
        at = order[middle - 1]
        if at_least_p(int(gained[at]), int(lost[at]), questions, -margin) <= ALPHA:
            low = middle
        else:
            high = middle - 1
    return scores >= scores[order[low - 1]] - 1e-9 if low else np.zeros(len(scores), bool)


def chance(which: Any, questions: int, gain: float, loss: float) -> float:
    """Return the chance of outcomes by the shares of questions that gain and lose."""
    gained, lost = (values[which] for values in outcomes(questions))
    rest = questions - gained - lost
    shares = [gain, loss, max(0.0, 1 - gain - loss)]
    return float(scipy.stats.multinomial.pmf(np.stack([gained, lost, rest], -1), questions, shares).sum())


def worst_error(which: Any, questions: int, margin: float) -> float:
    """Return the highest chance that outcomes pass although the loss is the margin."""
    if not which.any():
        return 0.0
    gains = np.linspace(0, (1 - margin) / 2, _SHARES)
    return max(chance(which, questions, gain, gain + margin) for gain in gains)


def plain(questions: int, margin: float) -> Any:
    """Return which outcomes pass by Tango's score alone."""
    return np.vectorize(score)(*outcomes(questions), questions, -margin) >= QUANTILE


@cache
def passes(more: int, less: int, questions: int, margin: float) -> bool:
    """Return whether rounded flips pass."""
    return at_least_p(more, less, questions, -margin) <= ALPHA


def simulated_error(
    questions: int, margin: float, repetitions: int, random: np.random.Generator, *, is_missing: bool
) -> float:
    """Return the share of runs worse by the margin that pass, with one to four sessions of each question.

    The question decides a part of the outcome. With `is_missing` half of the second run's failed sessions are
    not there, or inconclusive, and 2% of the others.
    """
    wrong = 0
    for _ in range(repetitions):
        rate = random.choice([0.5, 0.8, 0.95])
        before = _sessions(questions, rate, random)
        after = _sessions(questions, rate - margin, random)
        sides = [
            OneSide(ByQuestion.of([tuple(map(float, each)) for each in side]), np.zeros(questions, int))
            for side in (before, after)
        ]
        if is_missing:
            sides[1] = _without_some(sides[1], random)
        first, second = Pairs(*sides, is_paired=True).filled(1.0, 0.0)
        changes = (second.means - first.means).tolist()
        gained = sum(change for change in changes if change > 0)
        lost = -sum(change for change in changes if change < 0)
        wrong += passes(int(gained + 1e-9), int(np.ceil(lost - 1e-9)), questions, margin)
    return wrong / repetitions


def _sessions(questions: int, rate: float, random: np.random.Generator) -> list[Any]:
    own = random.beta(rate * 2, (1 - rate) * 2, questions)
    return [random.random(random.integers(1, 5)) < each for each in own]


def _without_some(side: OneSide, random: np.random.Generator) -> OneSide:
    is_kept = random.random(len(side.values.values)) > np.where(side.values.values == 0, 0.5, 0.02)
    questions = np.arange(len(side.values)).repeat(side.values.counts)
    counts = np.bincount(questions[is_kept], minlength=len(side.values))
    return OneSide(ByQuestion(side.values.values[is_kept], counts), side.values.counts - counts)


def power(questions: int, loss: float, differing: float) -> tuple[float, float]:
    """Return how often a loss is found, and how often, if nothing changed, a margin of its size passes."""
    gained, lost = outcomes(questions)
    worse = np.array([at_most_p(int(a), int(b), questions, 0.0) <= ALPHA if b > a else False
                      for a, b in zip(gained, lost, strict=True)])  # fmt: skip
    gain = (differing - loss) / 2
    return (
        chance(worse, questions, gain, gain + loss),
        chance(passing(questions, loss), questions, differing / 2, differing / 2),
    )


def alarms(questions: int, repetitions: int, random: np.random.Generator) -> tuple[float, float]:
    """Return the share of comparisons of equal runs in which `passed`, and any other metric, has changed."""
    found = [0, 0]
    for _ in range(repetitions):
        changes = compare(*found_shifts.runs(set(), random, questions)).metrics
        changed = {one.metric for one in changes if one.change not in (Change.NONE, Change.TOO_LITTLE)}
        found[0] += PASSED in changed
        found[1] += bool(changed - {PASSED})
    return found[0] / repetitions, found[1] / repetitions


def errors(repetitions: int) -> Iterator[tuple[str, float, float]]:
    """Yield what is measured, the highest error, and the highest that is allowed."""
    random = np.random.default_rng(1)
    for margin in MARGINS:
        exact = max((worst_error(passing(n, margin), n, margin), n) for n in NUMBERS)
        yield f"margin {margin}: one session, 2 to 300 questions (worst: {exact[1]})", exact[0], ALPHA
        bare = max((worst_error(plain(n, margin), n, margin), n) for n in NUMBERS)
        yield f"margin {margin}: Tango's score alone (worst: {bare[1]})", bare[0], 1.0
    beyond = max((worst_error(plain(n, margin), n, margin), n, margin) for n in BEYOND for margin in MARGINS)
    yield f"beyond {MAX_EXACT} questions: Tango's score (worst: {beyond[1:]})", beyond[0], 0.03
    allowed = ALPHA + 3 * sqrt(ALPHA / repetitions)
    for is_missing in (False, True):
        for number in SIMULATED:
            of_margins = [
                simulated_error(number, margin, repetitions, random, is_missing=is_missing)
                for margin in MARGINS
            ]
            what = "several sessions" + (", some missing because they failed" if is_missing else "")
            yield f"{number} questions: {what}", max(of_margins), allowed
    for number in (6, 30, 250):
        for which, share in zip(
            ("passed", "14 others"), alarms(number, min(repetitions, 400), random), strict=True
        ):
            yield f"{number} questions: false alarms of {which}", share, 0.05 + 3 * sqrt(0.05 / 400)


def main(repetitions: int) -> int:
    """Print the errors and the power; return the exit code."""
    bad = 0
    for what, error, allowed in errors(repetitions):
        bad += error > allowed + 1e-4
        print(f"{what}: {error:.4f}", flush=True)
    for number in (50, 100):
        for differing in (0.2, 0.3):
            found, accepted = power(number, 0.15, differing)
            print(
                f"{number} questions of which {differing:.0%} differ: a loss of 15 points is found in "
                f"{found:.3f}; without a change, a margin of 15 points passes in {accepted:.3f}"
            )
    for margin in MARGINS:
        for differing in (0.02, 0.1, 0.2):
            number = int(np.ceil(questions_for(differing, margin)))
            if number <= MAX_EXACT:
                settled = chance(passing(number, margin), number, differing / 2, differing / 2)
                bad += settled < 0.7
                print(f"margin {margin}, {differing:.0%} differ: the plan of {number} settles {settled:.3f}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
