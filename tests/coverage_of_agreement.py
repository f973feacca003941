"""How often the intervals of kappa, the corrected pass rate and a judged difference contain the truth.

`python tests/coverage_of_agreement.py 2000` prints the lowest, mean and highest share over a grid of judges
for each number of labels, and exits with 1 if one is too low: .ci/long runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from math import sqrt
from statistics import fmean
from typing import Any

import numpy as np

from spangrade.evaluator.statistics.agreement.agreement import CorrectedRate, corrected_rate
from spangrade.evaluator.statistics.agreement.statistics import Confusion, Kappa, cohens_kappa
from spangrade.evaluator.statistics.comparison.compare import judge_error
from spangrade.evaluator.statistics.comparison.differences import (
    Difference,
    Tested,
    TooLittle,
    paired_difference,
)
from spangrade.evaluator.statistics.comparison.exact import ALPHA

LOWEST = 0.93
LABELS = (20, 30, 50, 100)
OTHERS = (50, 500)
RATES = (0.5, 0.8, 0.9, 0.95)
QUESTIONS = (30, 100)
LOSS = 0.1
JUDGES = ((0.97, 0.97), (0.9, 0.9), (0.9, 0.6), (0.7, 0.7), (0.99, 0.5))  # true positive, true negative rate

_kappa = cache(cohens_kappa)
_corrected = cache(corrected_rate)


@cache
def _difference(gained: int, lost: int, questions: int) -> Tested | TooLittle:
    """Return the difference of questions of which some gained and some lost."""
    same = [(1.0,)] * (questions - gained - lost)
    first = [(0.0,)] * gained + [(1.0,)] * lost + same
    second = [(1.0,)] * gained + [(0.0,)] * lost + same
    return paired_difference(first, second, (0.0, 1.0))


def shares(repetitions: int, labels: int, seed: int = 1) -> Iterator[tuple[str, float]]:
    """Yield the share of the repetitions in which an interval contains the truth, for each cell."""
    random = np.random.default_rng(seed)
    for passed, (positive, negative), others in product(RATES, JUDGES, OTHERS):
        cells = [passed * positive, (1 - passed) * (1 - negative)]
        cells += [passed * (1 - positive), (1 - passed) * negative]
        true_kappa = _kappa(Confusion(*(round(cell * 10**9) for cell in cells)))
        assert true_kappa is not None
        counts = random.multinomial(labels, cells, repetitions).tolist()
        of_others = random.binomial(others, cells[0] + cells[1], repetitions).tolist()
        drawn = [Confusion(*count) for count in counts]
        if others == OTHERS[0]:
            yield "kappa", fmean(_contains(_kappa(one), true_kappa.estimate) for one in drawn)
        yield (
            "rate",
            fmean(
                _contains(_corrected(one, n, others), passed) for one, n in zip(drawn, of_others, strict=True)
            ),
        )


def judged_shares(repetitions: int, labels: int, seed: int = 1) -> Iterator[tuple[float, float]]:
    """Yield how often the interval of a judged difference contains that of people, for each cell.

    The second is how often a run that people find worse by just 10 points passes a gate of 10 points. Samples
    of which all labels are the same are left out: there the judge is taken at its word.
    """
    random = np.random.default_rng(seed)
    for passed, (positive, negative), questions in product(RATES, JUDGES, QUESTIONS):
        contained = wrong = total = 0
        of_labels = random.random((repetitions, labels)) < passed
        for people in of_labels:
            by_judge = _by_judge(random, people, positive, negative)
            if people.all() or not people.any():
                continue
            total += 1
            error = judge_error(Confusion.of(zip(by_judge.tolist(), people.tolist(), strict=True)))
            before = random.random(questions) < passed
            after = before & (random.random(questions) >= LOSS / passed)
            sides = [_by_judge(random, side, positive, negative).astype(float) for side in (before, after)]
            values = [((a,), (b,)) for a, b in zip(sides[0].tolist(), sides[1].tolist(), strict=True)]
            gained = sum(a < b for a, b in values)
            lost = sum(a > b for a, b in values)
            found = _difference(gained, lost, questions)
            if error is not None and isinstance(found, Tested):
                found = error.widen(found._replace(span=1.0))
            found = found.at()
            is_known = isinstance(found, Difference)
            contained += not is_known or found.low - 1e-9 <= -LOSS <= found.high + 1e-9
            wrong += is_known and found.is_at_least(-LOSS)
        yield contained / total, wrong / total


def _by_judge(random: np.random.Generator, people: Any, positive: float, negative: float) -> Any:
    return np.where(people, random.random(len(people)) < positive, random.random(len(people)) >= negative)


def _contains(interval: Kappa | CorrectedRate | None, truth: float) -> bool:
    return interval is None or interval.low - 1e-9 <= truth <= interval.high + 1e-9


def main(repetitions: int) -> int:
    """Print the shares; return the exit code."""
    bad = 0
    noise = 3 * sqrt(LOWEST * (1 - LOWEST) / repetitions)  # three standard errors
    for labels in LABELS:
        found = list(shares(repetitions, labels))
        for kind in ("kappa", "rate"):
            those = [share for name, share in found if name == kind]
            bad += min(those) < LOWEST - noise
            low, mean, high = min(those), fmean(those), max(those)
            print(f"{kind:5} {labels:3} labels: {low:.3f} to {high:.3f}, mean {mean:.3f}")
        difference = list(judged_shares(repetitions, labels))
        low, wrong = min(share for share, _ in difference), max(share for _, share in difference)
        bad += low < LOWEST - noise or wrong > ALPHA + 3 * sqrt(ALPHA / repetitions)
        print(f"judged difference, {labels:3} labels: {low:.3f} or more; wrong passes {wrong:.3f} or fewer")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
