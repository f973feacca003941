"""The figures of an agreement report against those of libraries: evalstats, statsmodels and ppi-python."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("ppi_py", reason="needs the group `agreement`")
import evalstats
import numpy as np
from agreement_examples import MADE, OTHERS, OTHERS_PASSED, pairs
from ppi_py import ppi_mean_ci, ppi_mean_pointestimate
from statsmodels.stats.inter_rater import cohens_kappa as statsmodels_kappa
from statsmodels.stats.proportion import proportion_confint

from spangrade.evaluator.statistics.agreement.agreement import corrected_rate, prediction_powered
from spangrade.evaluator.statistics.agreement.statistics import Confusion, cohens_kappa, rate
from spangrade.evaluator.statistics.intervals import QUANTILE

TABLES = [
    (MADE, OTHERS_PASSED, OTHERS),
    (Confusion(60, 4, 3, 13), 320, 400),
    (Confusion(12, 1, 0, 9), 30, 77),
    (Confusion(3, 30, 30, 3), 10, 100),
    (Confusion(200, 3, 12, 35), 4000, 5000),
]
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def arrays(confusion: Confusion, passed: int, others: int) -> Arrays:
    """Return the labels, the judge's verdicts on the same sessions, and those on the others."""
    judge, people = np.array(pairs(confusion), dtype=float).T
    return people, judge, np.repeat([1.0, 0.0], [passed, others - passed])


@pytest.mark.parametrize(("confusion", "passed", "others"), TABLES)
def test_kappa_and_its_error_are_those_of_statsmodels(confusion: Confusion, passed: int, others: int) -> None:
    kappa = cohens_kappa(confusion)
    theirs = statsmodels_kappa(np.array(confusion).reshape(2, 2))
    assert kappa is not None
    assert kappa[:2] == pytest.approx((theirs.kappa, theirs.std_kappa))
    with_added = statsmodels_kappa(np.array(confusion).reshape(2, 2) + 1)
    low, high = (with_added.kappa + sign * QUANTILE * with_added.std_kappa for sign in (-1, 1))
    assert kappa[2:] == pytest.approx((max(low, -1), min(high, 1)))


@pytest.mark.parametrize(("confusion", "passed", "others"), TABLES)
def test_agreement_and_kappa_are_those_of_evalstats(confusion: Confusion, passed: int, others: int) -> None:
    people, judge, _ = arrays(confusion, passed, others)
    theirs = evalstats.judge_alignment(
        judge, people, score_type="binary", selection="random", ci=False
    ).alignment_metrics
    kappa = cohens_kappa(confusion)
    assert kappa is not None
    assert kappa.estimate == pytest.approx(theirs["cohens_kappa"]["estimate"])
    assert confusion.agreed / sum(confusion) == pytest.approx(theirs["percent_agreement"]["estimate"])


@pytest.mark.parametrize(("number", "total"), [(0, 20), (20, 30), (15, 20), (99, 100), (5, 5)])
def test_intervals_of_rates_are_those_of_statsmodels(number: int, total: int) -> None:
    own = rate(number, total)
    assert own is not None
    theirs = proportion_confint(number, total, method="wilson")
    assert own[3:] == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(("confusion", "passed", "others"), TABLES)
def test_the_corrected_rate_is_that_of_ppi_python(confusion: Confusion, passed: int, others: int) -> None:
    own = arrays(confusion, passed, others)
    estimate, error, _ = prediction_powered(confusion, passed, others)
    assert estimate == pytest.approx(float(np.squeeze(ppi_mean_pointestimate(*own))))
    theirs = [float(np.squeeze(end)) for end in ppi_mean_ci(*own, alpha=0.05)]
    assert [estimate - QUANTILE * error, estimate + QUANTILE * error] == pytest.approx(theirs)


@pytest.mark.parametrize(("confusion", "passed", "others"), TABLES)
def test_its_interval_is_that_of_ppi_python_with_two_more_labels(
    confusion: Confusion, passed: int, others: int
) -> None:
    corrected = corrected_rate(confusion, passed, others)
    assert corrected is not None
    added = confusion._replace(pass_fail=confusion.pass_fail + 1, fail_pass=confusion.fail_pass + 1)
    low, high = (float(np.squeeze(end)) for end in ppi_mean_ci(*arrays(added, passed, others), alpha=0.05))
    expected = max(min(low, corrected.estimate), 0.0), min(max(high, corrected.estimate), 1.0)
    assert (corrected.low, corrected.high) == pytest.approx(expected)


@pytest.mark.parametrize(("confusion", "passed", "others"), TABLES)
def test_evalstats_corrects_the_rate_to_within_half_an_error(
    confusion: Confusion, passed: int, others: int
) -> None:
    """It chooses the weight in another way, so that the two are close, not equal."""
    corrected = corrected_rate(confusion, passed, others)
    assert corrected is not None
    people, judge, judge_of_others = arrays(confusion, passed, others)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = evalstats.judge_debias_mean_ci(
            np.concatenate([judge, judge_of_others]),
            np.concatenate([people, np.full(others, np.nan)]),
            rng=1,
        )
    assert theirs.mean == pytest.approx(corrected.estimate, abs=corrected.standard_error / 2)
    assert theirs.ci_low < corrected.estimate < theirs.ci_high
    assert corrected.low < theirs.mean < corrected.high
