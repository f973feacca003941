"""How far the verdicts of a metric agree with people's labels: counts, rates, kappa, the corrected rate."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from spangrade.evaluator.statistics.agreement.statistics import (
    AgreementRate,
    Confusion,
    Kappa,
    cohens_kappa,
    rate,
)
from spangrade.evaluator.statistics.intervals import QUANTILE, check_scipy
from spangrade.tracer.base.errors import ExitCode, SpangradeError

PASSED = "passed"  # in place of a metric: the verdict on the session as a whole
MIN_LABELS = 20  # with fewer, intervals contain the true value in less than 93% of some cases
SIGNIFICANT = 0.05
_ADDED = Confusion(0, 1, 1, 0)


class TooFewLabelsError(SpangradeError):
    """Fewer sessions have a verdict and a label than a report rests on."""

    exit_code = ExitCode.INCONCLUSIVE


class Judged(NamedTuple):
    """The verdict of a metric on a session, None if it has none, with the value and reason of its score."""

    session_id: str
    passed: bool | None
    value: float | None = None
    reason: str = ""


class Label(NamedTuple):
    """A person's verdict on what a metric measures of a session."""

    session_id: str
    author: str
    passed: bool
    note: str = ""


class Differing(NamedTuple):
    """A session that a metric and most people judge differently; `notes` are those of the people."""

    session_id: str
    judge_passed: bool
    people_passed: bool
    value: float | None
    reason: str
    authors: tuple[str, ...]
    notes: tuple[str, ...]


class PairOfPeople(NamedTuple):
    """How two people agree on the sessions that both labelled; kappa is None if all have one label."""

    first: str
    second: str
    agreed: AgreementRate
    kappa: Kappa | None


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


class Agreement(NamedTuple):
    """The verdicts of a metric against the labels of people; a rate is None without such sessions.

    `confusion` counts the sessions that have both. `true_positive_rate` is the share that the metric passed
    of the sessions that people passed, `true_negative_rate` the share that it failed of those they failed.
    `labelled_rate` and `others_rate` are the metric's own pass rates with and without a label;
    `representative_p` is the p-value of Fisher's exact test that these are the same, None without others.
    `ties` are sessions on which as many people passed as failed, and `unjudged` those with a label and
    without a verdict: both are left out. `without_verdict` counts all sessions that have a score or an
    outcome of the metric, and no verdict.
    """

    metric: str
    labels: int
    people: tuple[str, ...]
    confusion: Confusion
    agreed: AgreementRate
    true_positive_rate: AgreementRate | None
    true_negative_rate: AgreementRate | None
    kappa: Kappa | None
    labelled_rate: AgreementRate
    others_rate: AgreementRate | None
    representative_p: float | None
    corrected: CorrectedRate
    ties: tuple[str, ...]
    unjudged: tuple[str, ...]
    without_verdict: int
    pairs: tuple[PairOfPeople, ...]
    differing: tuple[Differing, ...]

    @property
    def is_representative(self) -> bool:
        """Whether the labelled sessions look like a random share: the metric passes as many of the others."""
        return self.representative_p is None or self.representative_p >= SIGNIFICANT


def agreement(metric: str, judged: Sequence[Judged], labels: Sequence[Label]) -> Agreement:
    """Return how far the verdicts of a metric agree with labels, of which a session may have several.

    The verdict of people is that of most of them. Raises TooFewLabelsError if fewer than `MIN_LABELS`
    sessions have both verdicts, and InputError if scipy is not installed.
    """
    of_people = {session_id: majority(given) for session_id, given in _by_session(labels).items()}
    verdicts = {one.session_id: one for one in judged if one.passed is not None}
    compared = compared_verdicts(judged, labels)
    confusion = Confusion.of(compared.values())
    others = [one.passed for one in verdicts.values() if one.session_id not in compared]
    agreed = rate(confusion.agreed, len(compared))
    labelled_rate = rate(confusion.pass_pass + confusion.pass_fail, len(compared))
    others_rate = rate(others.count(True), len(others))
    corrected = corrected_rate(confusion, others.count(True), len(others))
    if len(compared) < MIN_LABELS or agreed is None or labelled_rate is None or corrected is None:
        sessions = "1 session has" if len(compared) == 1 else f"{len(compared)} sessions have"
        raise TooFewLabelsError(
            f"{sessions} a label and a verdict of {metric}, expected at least {MIN_LABELS}: "
            f"spangrade label {'' if metric == PASSED else f'--metric {metric} '}--queue sampled --by USER"
        )
    return Agreement(
        metric,
        len(labels),
        tuple(sorted({label.author for label in labels})),
        confusion,
        agreed,
        rate(confusion.pass_pass, confusion.pass_pass + confusion.fail_pass),
        rate(confusion.fail_fail, confusion.fail_fail + confusion.pass_fail),
        cohens_kappa(confusion),
        labelled_rate,
        others_rate,
        _same_rate_p(labelled_rate, others_rate),
        corrected,
        ties=tuple(sorted(one for one, people in of_people.items() if people is None)),
        unjudged=tuple(sorted(of_people.keys() - verdicts.keys())),
        without_verdict=sum(one.passed is None for one in judged),
        pairs=pairs_of_people(labels),
        differing=differing_verdicts(judged, labels),
    )


def compared_verdicts(judged: Iterable[Judged], labels: Iterable[Label]) -> dict[str, tuple[bool, bool]]:
    """Return the verdicts of the metric and of most people on each session that has both."""
    of_people = majorities(labels)
    return {
        one.session_id: (one.passed, of_people[one.session_id])
        for one in judged
        if one.passed is not None and one.session_id in of_people
    }


def differing_verdicts(judged: Sequence[Judged], labels: Sequence[Label]) -> tuple[Differing, ...]:
    """Return the sessions that the metric and most people judge differently, by id."""
    by_session = _by_session(labels)
    verdicts = {one.session_id: one for one in judged}
    return tuple(
        _differing(verdicts[session_id], people, by_session[session_id])
        for session_id, (judge, people) in sorted(compared_verdicts(judged, labels).items())
        if judge != people
    )


def majority(labels: Sequence[Label]) -> bool | None:
    """Return whether most people passed a session; None if as many failed it."""
    passed = sum(label.passed for label in labels)
    return None if 2 * passed == len(labels) else 2 * passed > len(labels)


def majorities(labels: Iterable[Label]) -> dict[str, bool]:
    """Return the verdict of most people on each session, without those on which as many passed as failed."""
    verdicts = {session_id: majority(given) for session_id, given in _by_session(labels).items()}
    return {session_id: passed for session_id, passed in verdicts.items() if passed is not None}


def _by_session(labels: Iterable[Label]) -> dict[str, list[Label]]:
    found: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        found[label.session_id].append(label)
    return found


def _differing(judged: Judged, people: bool, labels: Sequence[Label]) -> Differing:
    return Differing(
        judged.session_id,
        not people,
        people,
        judged.value,
        judged.reason,
        tuple(label.author for label in labels),
        tuple(label.note for label in labels if label.note),
    )


def _same_rate_p(first: AgreementRate, second: AgreementRate | None) -> float | None:
    if second is None:
        return None
    check_scipy("agreement")
    import numpy as np
    from scipy.stats import fisher_exact

    table = np.array([[one.number, one.total - one.number] for one in (first, second)])
    return float(fisher_exact(table).pvalue)


def pairs_of_people(labels: Sequence[Label]) -> tuple[PairOfPeople, ...]:
    """Return how each two people agree who labelled a session both, those with most in common first."""
    by_author: dict[str, dict[str, bool]] = defaultdict(dict)
    for label in labels:
        by_author[label.author][label.session_id] = label.passed
    pairs = [_pair(*both) for both in combinations(sorted(by_author.items()), 2)]
    return tuple(sorted((pair for pair in pairs if pair is not None), key=lambda pair: -pair.agreed.total))


def corrected_rate(confusion: Confusion, others_passed: int, others: int) -> CorrectedRate | None:
    """Return the pass rate corrected for the judge's errors; None without labels.

    `confusion` counts the labelled sessions; of the `others` the judge passed `others_passed`.

    This is prediction-powered inference for a mean: the judge's pass rate of the sessions without a label,
    plus what the labels show of its errors. Its verdicts count with the weight, from 0 to 1, for which the
    variance is smallest; the weight of a judge whose verdicts do not depend on the labels is 0, and the rate
    is that of the labels.

    The interval is that of the method for the same sessions and two more labels on which judge and people
    differ, one each way. Without these a judge that errs on none of a few labels would count as perfect: with
    30 labels the plain interval contains the true rate in as little as 68% of the cases, with them in 93% or
    more from 20 labels on (tests/coverage_of_agreement.py). Without sessions other than the labelled ones,
    the rate is the labels' own, with Wilson's interval.

    Labels must be a random share of the sessions that the judge judged.

    Sources: A. N. Angelopoulos, S. Bates, C. Fannjiang, M. I. Jordan, T. Zrnic, "Prediction-powered
    inference", Science 382 (2023). A. N. Angelopoulos, J. C. Duchi, T. Zrnic, "PPI++: Efficient
    prediction-powered inference", arXiv:2311.01453 (2023), for the weight.
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


def _pair(
    first: tuple[str, Mapping[str, bool]], second: tuple[str, Mapping[str, bool]]
) -> PairOfPeople | None:
    common = first[1].keys() & second[1].keys()
    confusion = Confusion.of((first[1][session_id], second[1][session_id]) for session_id in common)
    agreed = rate(confusion.agreed, len(common))
    return None if agreed is None else PairOfPeople(first[0], second[0], agreed, cohens_kappa(confusion))
