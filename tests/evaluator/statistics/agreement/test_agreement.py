"""Agreement of a judge with people: values worked out by hand, several people, and how good intervals are."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest
from agreement_examples import MADE, OTHERS, OTHERS_PASSED, made_sessions, pairs
from coverage_of_agreement import shares

from spangrade.evaluator.statistics.agreement.agreement import (
    MIN_LABELS,
    Differing,
    Judged,
    Label,
    TooFewLabelsError,
    agreement,
    corrected_rate,
)
from spangrade.evaluator.statistics.agreement.statistics import Confusion, cohens_kappa, rate


def rounded(value: Any) -> tuple[float, ...]:
    return tuple(round(number, 4) for number in value)


def test_a_rate_has_wilsons_interval() -> None:
    # (20 + 1.92) / (30 + 3.84) ± 1.96 / 33.84 × sqrt(20 × 10 / 30 + 0.96)
    assert rounded(rate(20, 30)) == (20, 30, 0.6667, 0.4878, 0.8077)
    assert rate(0, 0) is None


def test_kappa_has_the_error_of_fleiss_cohen_and_everitt() -> None:
    # Agreed: 35 / 50; by chance: 0.5 × 0.6 + 0.5 × 0.4; (0.7 - 0.5) / (1 - 0.5). The variance is
    # (0.4 × 0.34² + 0.3 × 0.46² + 0.6² × (0.1 × 1.1² + 0.2 × 0.9²) - 0.1²) / (50 × 0.5²) = 0.016128.
    # Its interval is that of 21, 6, 11 and 16 of 54: 0.3704 ± 1.96 × 0.1242
    kappa = cohens_kappa(MADE)
    assert kappa is not None
    assert rounded(kappa) == (0.4, 0.127, 0.1269, 0.6138)


def test_two_raters_with_one_verdict_only_have_no_kappa() -> None:
    assert cohens_kappa(Confusion(30, 0, 0, 0)) is None
    assert cohens_kappa(Confusion(0, 0, 0, 0)) is None


def test_raters_who_never_differ_have_an_interval_all_the_same() -> None:
    kappa = cohens_kappa(Confusion(20, 0, 0, 10))
    assert kappa is not None
    assert kappa[:2] == (1.0, 0.0)
    assert 0.6 < kappa.low < 0.8
    assert kappa.high == 1.0


def test_the_corrected_rate_is_that_of_prediction_powered_inference() -> None:
    # Covariance 0.4 - 0.6 × 0.5 = 0.1, variance of the judge 0.65 × 0.35 × 100 / 99 = 0.2298; the weight is
    # 0.1 / (2 × 0.2298) = 0.2176; 0.6 + 0.2176 × (0.8 - 0.5) = 0.6653; the error is
    # sqrt((0.24 + 0.0473 × 0.25 - 0.4352 × 0.1) / 50 + 0.0473 × 0.16 / 50) = 0.0657. The interval is that of
    # 20, 6, 11 and 15 of 52, in the same way: 0.6513 ± 1.96 × 0.0655
    corrected = corrected_rate(MADE, OTHERS_PASSED, OTHERS)
    assert corrected is not None
    assert rounded(corrected) == (0.6653, 0.523, 0.7797, 0.0657, 0.2176, 50, 50)


def test_a_judge_that_is_always_right_leaves_the_error_of_its_rate() -> None:
    corrected = corrected_rate(Confusion(25, 0, 0, 25), 4000, 8000)
    assert corrected is not None
    assert corrected.estimate == pytest.approx(0.5)
    assert corrected.weight == pytest.approx(1 / (1 + 50 / 8000), abs=1e-3)
    assert corrected.standard_error == pytest.approx((0.25 / 8050) ** 0.5, rel=0.01)


def test_a_judge_that_guesses_counts_for_nothing() -> None:
    corrected = corrected_rate(Confusion(15, 10, 15, 10), 500, 500)
    assert corrected is not None
    assert (corrected.estimate, corrected.weight) == (0.6, 0.0)


def test_without_other_sessions_the_rate_is_that_of_the_labels() -> None:
    own = rate(30, 50)
    assert own is not None
    corrected = corrected_rate(MADE, 0, 0)
    assert corrected is not None
    assert corrected[:3] == own[2:]
    assert (corrected.weight, corrected.labels, corrected.others) == (0.0, 50, 0)
    assert corrected_rate(Confusion(0, 0, 0, 0), 5, 5) is None


def test_the_report_of_the_made_example() -> None:
    report = agreement("tone", *made_sessions())
    assert report.confusion == MADE
    assert report.agreed.estimate == 0.7
    assert report.true_positive_rate == rate(20, 30)
    assert report.true_negative_rate == rate(15, 20)
    assert report.kappa == cohens_kappa(MADE)
    assert report.corrected == corrected_rate(MADE, OTHERS_PASSED, OTHERS)
    assert (report.labelled_rate, report.others_rate) == (rate(25, 50), rate(40, 50))
    assert (report.labels, report.people, report.pairs) == (50, ("ann",), ())
    assert (report.ties, report.unjudged, report.without_verdict) == ((), (), 0)
    assert len(report.differing) == 15
    assert report.differing[0] == Differing("labelled-20", True, False, None, "", ("ann",), ())


def test_labels_that_are_not_a_random_share_are_noticed() -> None:
    judged, labels = made_sessions()
    report = agreement("tone", judged, labels)
    # Fisher's exact test of 25 of 50 and 40 of 50
    assert report.representative_p == pytest.approx(0.0031, abs=0.0001)
    assert not report.is_representative
    alike = [one._replace(passed=n % 2 == 0) if n >= 50 else one for n, one in enumerate(judged)]
    assert agreement("tone", alike, labels).is_representative
    only_labelled = agreement("tone", judged[:50], labels)
    assert (only_labelled.others_rate, only_labelled.representative_p) == (None, None)
    assert only_labelled.is_representative


def test_of_several_people_most_decide_and_ties_are_left_out() -> None:
    judged, labels = made_sessions()
    ben = [
        Label("labelled-00", "ben", False, "rude"),
        Label("labelled-01", "ben", False),
        Label("labelled-02", "ben", True),
    ]
    cleo = [Label("labelled-01", "cleo", False, "late")]
    report = agreement("tone", judged, [*labels, *ben, *cleo])
    assert report.ties == ("labelled-00",)
    assert report.confusion == Confusion(18, 6, 10, 15)
    assert report.differing[0] == Differing(
        "labelled-01", True, False, None, "", ("ann", "ben", "cleo"), ("late",)
    )
    assert (report.labels, report.people) == (54, ("ann", "ben", "cleo"))
    assert [(pair.first, pair.second, pair.agreed[:2]) for pair in report.pairs] == [
        ("ann", "ben", (1, 3)),
        ("ann", "cleo", (0, 1)),
        ("ben", "cleo", (1, 1)),
    ]
    assert report.corrected.others == 51  # the judge's verdict of a tie counts like that of an unlabelled one


def test_sessions_without_a_verdict_of_the_judge_are_left_out_and_counted() -> None:
    judged, labels = made_sessions()
    judged[0] = judged[0]._replace(passed=None)
    report = agreement("tone", judged, [*labels, Label("never-judged", "ann", True)])
    assert report.confusion == MADE._replace(pass_pass=19)
    assert (report.unjudged, report.without_verdict) == (("labelled-00", "never-judged"), 1)


def test_fewer_than_twenty_labelled_sessions_are_refused() -> None:
    listed = [True, False] * MIN_LABELS
    judged = [Judged(f"s{n}", passed) for n, passed in enumerate(listed)]
    labels = [Label(one.session_id, "ann", True) for one in judged[:MIN_LABELS]]
    assert agreement("tone", judged, labels).corrected.labels == MIN_LABELS == 20
    message = r"^19 sessions have a label and a verdict of tone, expected at least 20: spangrade label "
    with pytest.raises(TooFewLabelsError, match=message):
        agreement("tone", judged, labels[1:])
    with pytest.raises(TooFewLabelsError, match=r"^1 session has a label"):
        agreement("tone", judged, labels[:1])


def test_the_order_of_pairs_does_not_matter() -> None:
    assert Confusion.of(reversed(pairs(MADE))) == MADE


@pytest.mark.exhaustive
def test_intervals_contain_the_truth() -> None:
    """The grid of .ci/long with few repetitions: too few for one cell, enough for all of a kind."""
    found = list(shares(300, 20))
    for kind in ("kappa", "rate"):
        assert fmean(share for name, share in found if name == kind) >= 0.94
    assert min(share for _, share in found) > 0.88
