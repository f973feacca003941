"""How often the intervals of kappa and of the corrected pass rate contain the truth, by simulation.

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

import numpy as np

from spangrade.evaluator.statistics.agreement.corrected_rate import CorrectedRate, corrected_rate
from spangrade.evaluator.statistics.agreement.statistics import Confusion, Kappa, cohens_kappa

LOWEST = 0.93
LABELS = (20, 30, 50, 100)
OTHERS = (50, 500)
RATES = (0.5, 0.8, 0.9, 0.95)
JUDGES = ((0.97, 0.97), (0.9, 0.9), (0.9, 0.6), (0.7, 0.7), (0.99, 0.5))  # true positive, true negative rate

_kappa = cache(cohens_kappa)
_corrected = cache(corrected_rate)


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
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
