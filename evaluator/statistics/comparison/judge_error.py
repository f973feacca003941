"""How far a judge's verdicts show a difference between two samples, by the labels of people.

A judge that errs as often in both samples makes a difference smaller: it shows the share TPR - FPR of it,
where TPR is the share that it passes of the sessions that people passed, and FPR of those that they failed.
What is shown is therefore all of the difference at most, and at least the lower end of the 95% interval of
that share (Agresti-Caffo). W. J. Rogan, B. Gladen, "Estimating prevalence from the results of a screening
test", American Journal of Epidemiology 107 (1978). tests/coverage_of_agreement.py simulates the intervals.
"""

from __future__ import annotations

from typing import NamedTuple

from spangrade.evaluator.statistics.agreement.agreement import MIN_LABELS
from spangrade.evaluator.statistics.agreement.statistics import Confusion
from spangrade.evaluator.statistics.comparison.differences import Tested, TooLittle
from spangrade.evaluator.statistics.intervals import rates_interval


class MeasuredError(NamedTuple):
    """The error of a judge on `labels` sessions, of which it judged as many `right` as people do.

    `least_shown` is the share of a difference that its verdicts show at least, 0 or less if perhaps none.
    """

    labels: int
    right: int
    least_shown: float

    def widen(self, tested: Tested) -> Tested | TooLittle:
        """Return what was tested of values that the judge gave, with intervals as wide as its error."""
        if self.least_shown <= 0:
            why = f"{self.labels} labels do not show that the judge tells good sessions from bad ones"
            return TooLittle(why, estimate=tested.estimate)
        return tested._replace(least_shown=self.least_shown)


def judge_error(confusion: Confusion | None) -> MeasuredError | None:
    """Return the error of a judge; None below 20 labels, or if people passed all of them or none."""
    if confusion is None or sum(confusion) < MIN_LABELS:
        return None
    failed, passed = confusion.pass_fail + confusion.fail_fail, confusion.pass_pass + confusion.fail_pass
    if not failed or not passed:
        return None
    least_shown, _ = rates_interval((confusion.pass_fail, failed), (confusion.pass_pass, passed))
    return MeasuredError(sum(confusion), confusion.agreed, least_shown)
