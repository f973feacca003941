"""How many questions would settle a gate.

The plan assumes that nothing changed, and asks for 80% power: of ten samples of that size, eight settle the
gate. What it cannot know is how many questions have another outcome by chance: its two numbers are for the
lowest and the highest share, or spread, that the data at hand allow with 95% confidence.
tests/false_passes.py measures how often the plan holds. Source, for shares: J.-M. Nam, "Establishing
equivalence of two treatments and sample size requirements in matched-pairs design", Biometrics 53 (1997).
"""

from __future__ import annotations

import math
from statistics import NormalDist

from spangrade.evaluator.statistics.comparison.differences import Difference
from spangrade.evaluator.statistics.comparison.exact import ALPHA, score
from spangrade.evaluator.statistics.intervals import QUANTILE, deviation_factors, wilson_interval

_POWER = NormalDist().inv_cdf(0.8)


def questions_needed(difference: Difference, margin: float) -> tuple[int, int] | None:
    """Return the fewest and the most questions that settle a margin with 80% power if nothing changed.

    None if no number does, or if there are as many already.
    """
    if difference.is_ratio:
        margin = math.log1p(margin)
    if margin <= 0:
        return None
    questions = difference.questions
    if difference.flips is not None:
        share = min((difference.flips.gained + difference.flips.lost) / questions, 1.0)
        shares = wilson_interval(share * questions, questions)
        shown = margin / difference.flips.span * difference.least_shown
        plans = [questions_for(each, shown) for each in shares]
    else:
        error = _standard_error(difference)
        plans = [
            questions * ((QUANTILE + _POWER) * error * factor / margin) ** 2
            for factor in deviation_factors(questions)
        ]
    fewest, most = (math.ceil(each) for each in plans)
    return (max(fewest, questions + 1), most) if most > questions else None


def questions_for(share: float, margin: float) -> float:
    """Return how many questions settle a margin if a share of them differs by chance, either way as often."""
    at_once = math.log(ALPHA) / math.log1p(-margin)  # without any that differs
    per_question = float(score(share / 2, share / 2, 1, -margin))  # standard errors under the hypothesis
    under_hypothesis = margin / per_question
    planned = ((QUANTILE * under_hypothesis + _POWER * math.sqrt(share)) / margin) ** 2
    return max(planned, at_once)


def _standard_error(difference: Difference) -> float:
    ends = (difference.low, difference.high)
    low, high = map(math.log, ends) if difference.is_ratio else ends
    return (high - low) / (2 * QUANTILE)
