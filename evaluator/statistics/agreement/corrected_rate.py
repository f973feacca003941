"""The share of sessions that people would pass, from a judge of all sessions and people's labels of some.

This is prediction-powered inference for a mean: the judge's pass rate of the sessions without a label, plus
what the labels show of its errors. Its verdicts count with the weight, from 0 to 1, for which the variance is
smallest; the weight of a judge whose verdicts do not depend on the labels is 0, and the rate is that of the
labels.

The interval is that of the method for the same sessions and two more labels on which judge and people
differ, one each way. Without these a judge that errs on none of a few labels would count as perfect: with 30
labels the plain interval contains the true rate in as little as 68% of the cases, with them in 93% or more
from 20 labels on (tests/coverage_of_agreement.py). Without sessions other than the labelled ones, the rate
is the labels' own, with Wilson's interval.

Labels must be a random share of the sessions that the judge judged.

Sources: A. N. Angelopoulos, S. Bates, C. Fannjiang, M. I. Jordan, T. Zrnic, "Prediction-powered inference",
Science 382 (2023). A. N. Angelopoulos, J. C. Duchi, T. Zrnic, "PPI++: Efficient prediction-powered
inference", arXiv:2311.01453 (2023), for the weight.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from spangrade.evaluator.statistics.agreement.statistics import Confusion, rate
from spangrade.evaluator.statistics.intervals import QUANTILE

_ADDED = Confusion(0, 1, 1, 0)


class CorrectedRate(NamedTuple):
    """The share of sessions that people would pass, with its 95% interval `low` to `high`.

    It rests on the number of `labels`, and on the judge's verdicts of the `others`, which have no label.
    `weight` is that of the judge's verdicts. `standard_error` is that of the estimate, without the two labels
    that are added for the interval.
    """

    estimate: float
    low: float
    high: float
    standard_error: float
    weight: float
    labels: int
    others: int


def corrected_rate(confusion: Confusion, others_passed: int, others: int) -> CorrectedRate | None:
    """Return the pass rate corrected for the judge's errors; None without labels.

    `confusion` counts the labelled sessions; of the `others` the judge passed `others_passed`.
    """
    labels = sum(confusion)
    own = rate(confusion.pass_pass + confusion.fail_pass, labels)
    if own is None:
        return None
    if not others:
        error = math.sqrt(own.estimate * (1 - own.estimate) / labels)
        return CorrectedRate(own.estimate, own.low, own.high, error, 0.0, labels, 0)
    estimate, error, weight = prediction_powered(confusion, others_passed, others)
    with_added = Confusion(*(count + more for count, more in zip(confusion, _ADDED, strict=True)))
    center, wide, _ = prediction_powered(with_added, others_passed, others)
    estimate = min(max(estimate, 0.0), 1.0)
    low = max(min(center - QUANTILE * wide, estimate), 0.0)
    high = min(max(center + QUANTILE * wide, estimate), 1.0)
    return CorrectedRate(estimate, low, high, error, weight, labels, others)


def prediction_powered(confusion: Confusion, others_passed: int, others: int) -> tuple[float, float, float]:
    """Return the estimate of the rate, its standard error, and the weight of the judge's verdicts."""
    labels = sum(confusion)
    people = (confusion.pass_pass + confusion.fail_pass) / labels
    judge = (confusion.pass_pass + confusion.pass_fail) / labels
    judge_of_others = others_passed / others
    covariance = confusion.pass_pass / labels - people * judge
    everywhere = (judge * labels + others_passed) / (labels + others)
    variance = everywhere * (1 - everywhere) * (labels + others) / (labels + others - 1)
    weight = covariance / ((1 + labels / others) * variance) if variance else 0.0
    weight = min(max(weight, 0.0), 1.0)
    estimate = people + weight * (judge_of_others - judge)
    of_labels = people * (1 - people) + weight**2 * judge * (1 - judge) - 2 * weight * covariance
    of_others = weight**2 * judge_of_others * (1 - judge_of_others)
    return estimate, math.sqrt(max(of_labels, 0.0) / labels + of_others / others), weight
