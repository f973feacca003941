"""What `--fail-if` asks of a comparison: a margin for a metric, how many questions regressed, or no loss.

`METRIC worse by MARGIN` is a test of non-inferiority. The second run fails if the data show a loss beyond the
margin, and passes if they show one within it, each with an error of 2.5%; else they do not settle it. What is
unknown counts against either claim: a metric with bounds passes only if it does so in the worst case of all
unknown values, and fails only in the best. G. Piaggio et al., "Reporting of noninferiority and equivalence
randomized trials", JAMA 308 (2012), figure 1.

`worse` asks less: it fails if the exact paired test of `passed` shows a loss, p <= 0.05. That more questions
regressed than were fixed although the test does not show it is not settled. An agent whose repeats differ by
chance meets it, and no number of questions is needed.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from statistics import NormalDist
from typing import NamedTuple

from spangrade.evaluator.statistics.comparison.by_question import ByQuestion
from spangrade.evaluator.statistics.comparison.changes import changes_of_metric
from spangrade.evaluator.statistics.comparison.compare import (
    Comparison,
    MetricChange,
    Statistic,
    difference_of,
)
from spangrade.evaluator.statistics.comparison.differences import Difference, TooLittle, paired_difference
from spangrade.evaluator.statistics.comparison.exact import ALPHA, score
from spangrade.evaluator.statistics.comparison.sample import PASSED
from spangrade.evaluator.statistics.intervals import ERROR, QUANTILE, deviation_factors, wilson_interval
from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.plugins import notebook_html
from spangrade.tracer.base.terminal import counted

_GONE = re.compile(r"broken *>.*")  # what this was called
_REGRESSED = re.compile(r"regressed *> *(?P<number>\d+)")
_LOSS = re.compile(r"(?P<metric>\S+) +worse +by +(?P<number>\d+(\.\d+)?|\.\d+) *(?P<unit>%|points?)?")
_WORSE = "worse"
_EXPECTED = "expected METRIC worse by MARGIN, such as 'passed worse by 5 points', 'regressed > N' or 'worse'"
_MAX_NAMED = 20  # questions that regressed

_NAMES = {
    Statistic.MEAN: "mean",
    Statistic.MEDIAN: "median change of a question",
    Statistic.GEOMEAN: "geometric mean",
}
_POWER = NormalDist().inv_cdf(0.8)


class ConditionOutcome(StrEnum):
    """The outcome of a condition."""

    PASSED = "passed"
    FAILED = "failed"
    UNSETTLED = "inconclusive"

    @property
    def text(self) -> str:
        """The outcome as it is said of a condition: `held`, `not held` or `inconclusive`."""
        return {"passed": "held", "failed": "not held"}.get(self, str(self))


class LossCondition(NamedTuple):
    """A metric and the loss that is accepted: a `margin` in a `unit`, "%", "point" or "" (the metric's)."""

    text: str
    metric: str
    margin: float
    unit: str = ""


class RegressedCondition(NamedTuple):
    """How many questions may regress."""

    text: str
    most: int


class WorseCondition(NamedTuple):
    """That the exact paired test of `passed` shows no loss."""

    text: str


Condition = LossCondition | RegressedCondition | WorseCondition


class ConditionResult(NamedTuple):
    """The outcome of a condition, and why. `accepted` says what it accepts.

    `questions`, at least and at most, would settle it if nothing changed, None if that is not known.
    """

    condition: str
    outcome: ConditionOutcome
    reason: str
    accepted: str = ""
    questions: tuple[int, int] | None = None


class Compared(NamedTuple):
    """The differences between two samples, and the results of the requested conditions."""

    comparison: Comparison
    conditions: tuple[ConditionResult, ...] = ()

    def __repr__(self) -> str:
        return f"<Compared {self.comparison!r}; {counted(len(self.conditions), 'condition')}>"

    def _repr_html_(self) -> str | None:
        return notebook_html(self)

    def exit_code(self, *, inconclusive_ok: bool = False) -> ExitCode:
        """Return 1 if a condition failed, else 4 if one is not settled and that is not accepted, else 0."""
        outcomes = {result.outcome for result in self.conditions}
        if ConditionOutcome.FAILED in outcomes:
            return ExitCode.FAILED
        if ConditionOutcome.UNSETTLED in outcomes and not inconclusive_ok:
            return ExitCode.INCONCLUSIVE
        return ExitCode.PASSED


def parse_condition(text: str) -> Condition:
    """Return the condition of a text, such as `tools:recall worse by 0.02`, `regressed > 0` or `worse`.

    Raises InputError for any other text.
    """
    asked = text.strip()
    if asked == _WORSE:
        return WorseCondition(_WORSE)
    if found := _REGRESSED.fullmatch(asked):
        return RegressedCondition(asked, int(found["number"]))
    if _GONE.fullmatch(asked):
        raise FieldError("fail_if", f"did you mean '{asked.replace('broken', 'regressed', 1)}'?", repr(text))
    if (loss := _LOSS.fullmatch(asked)) is None:
        raise FieldError("fail_if", _EXPECTED, repr(text))
    unit, number = loss["unit"] or "", float(loss["number"])
    margin = number / 100 if unit else number
    return LossCondition(asked, loss["metric"], margin, unit.removesuffix("s"))


def judge(condition: Condition, comparison: Comparison) -> ConditionResult:
    """Return the result of a condition; its reason also has the differences in how its metric was measured.

    Raises InputError if the metric is not in both or has no better direction, and for a margin that does not
    fit the metric.
    """
    name = condition.metric if isinstance(condition, LossCondition) else PASSED
    result = _judged(condition, comparison)
    sides = comparison.first, comparison.second
    notes = changes_of_metric(name, *sides, comparison.changed_questions)
    if comparison.other_rules:
        return ConditionResult(
            condition.text, ConditionOutcome.UNSETTLED, comparison.other_rules, result.accepted
        )
    return result._replace(reason="; ".join((result.reason, *notes)))


def _judged(condition: Condition, comparison: Comparison) -> ConditionResult:
    if isinstance(condition, RegressedCondition):
        return _judge_regressed(condition, comparison)
    if isinstance(condition, WorseCondition):
        return _judge_worse(condition, comparison)
    change, statistic = _named(condition.metric, comparison)
    if change is None:
        names = ", ".join(each.metric for each in comparison.metrics)
        raise FieldError(
            "fail_if", f"{condition.metric} is not in both; there are {names}", repr(condition.text)
        )
    if change.measured.higher_is_better is None:
        raise FieldError("fail_if", f"{condition.metric} has no better direction", repr(condition.text))
    if statistic is not Statistic.MEAN:
        if math.isfinite(change.measured.bounds[1] - change.measured.bounds[0]):
            raise FieldError(
                "fail_if", f"{change.metric} has bounds: expected its mean", repr(condition.text)
            )
        known = change.pairs.known()
        found = difference_of(*known, change.measured, is_paired=change.pairs.is_paired, statistic=statistic)
        change = change._replace(tested=found)
    accepted = _accepted(condition, change, statistic)
    if missing := change.pairs.total - change.pairs.comparable:
        return _judge_with_unknown(condition, change, missing, accepted)
    difference = change.tested.at()
    if isinstance(difference, TooLittle):
        needed = difference.needed
        return ConditionResult(
            condition.text,
            ConditionOutcome.UNSETTLED,
            f"{_observed(change)}: {difference.reason}",
            accepted,
            None if needed is None else (needed, needed),
        )
    outcome = _outcome(condition, change, difference)
    reason = _interval(condition, change, difference)
    needed_questions = None
    if outcome is ConditionOutcome.UNSETTLED:
        needed_questions = questions_needed(difference, condition.margin)
        if needed_questions is not None:
            fewest, most = needed_questions
            number = f"{most:,}" if fewest == most else f"between {fewest:,} and {most:,}"
            reason += f"; if nothing changed, {number} questions settle it with 80% power"
    return ConditionResult(condition.text, outcome, reason, accepted, needed_questions)


def at_least_compared(share: float, comparison: Comparison) -> ConditionResult:
    """Return whether at least this share of the questions can be compared."""
    pairs = comparison.passed
    is_met = pairs.total > 0 and pairs.comparable >= share * pairs.total
    outcome = ConditionOutcome.PASSED if is_met else ConditionOutcome.UNSETTLED
    return ConditionResult(f"compared >= {share:.0%}", outcome, compared_text(comparison))


def compared_text(comparison: Comparison) -> str:
    """Return how many of the questions can be compared, and why others cannot."""
    pairs = comparison.passed
    share = pairs.comparable / pairs.total if pairs.total else 0.0
    total = counted(pairs.total, "question") if pairs.is_paired else f"{pairs.total} questions and sessions"
    text = f"{pairs.comparable} of {total} ({share:.0%}) can be compared"
    reasons = []
    for side, names, undecided in (
        ("first", comparison.unanswered_in_first, comparison.undecided[0]),
        ("second", comparison.unanswered_in_second, comparison.undecided[1]),
    ):
        if names:
            reasons.append(f"{len(names)} unanswered in the {side}")
        if undecided:
            reasons.append(f"{counted(undecided, 'session')} inconclusive or broken in the {side}")
    if comparison.excluded:
        reasons.append(comparison.excluded)
    return f"{text}: {', '.join(reasons)}" if reasons else text


def _judge_regressed(condition: RegressedCondition, comparison: Comparison) -> ConditionResult:
    """Return the result by the number of questions that regressed; one that cannot be compared may have."""
    pairs = comparison.passed
    accepted = f"{counted(condition.most, 'question')}"
    if not pairs.is_paired:
        return ConditionResult(condition.text, ConditionOutcome.UNSETTLED, "no question is in both", accepted)
    regressed = len(pairs.flipped[0])
    possible = int(pairs.worse(1.0, 0.0).sum()) - regressed
    reason = f"{counted(regressed, 'question')} regressed"
    if regressed > condition.most:
        return ConditionResult(condition.text, ConditionOutcome.FAILED, reason, accepted)
    if not pairs.total or regressed + possible > condition.most:
        reason += f", and of {counted(possible, 'more question')} it is not known"
        return ConditionResult(condition.text, ConditionOutcome.UNSETTLED, reason, accepted)
    return ConditionResult(condition.text, ConditionOutcome.PASSED, reason, accepted)


def _judge_worse(condition: WorseCondition, comparison: Comparison) -> ConditionResult:
    """Return whether a loss is shown; unknown sessions pass in the best case and fail in the worst."""
    pairs = comparison.passed
    if not pairs.is_paired or not pairs.total:
        return ConditionResult(condition.text, ConditionOutcome.UNSETTLED, "no question is in both")
    regressed, fixed = pairs.flipped
    names = ", ".join(regressed[:_MAX_NAMED])
    more = f" and {len(regressed) - _MAX_NAMED} more" if len(regressed) > _MAX_NAMED else ""
    named = f" ({names}{more})" if regressed else ""
    reason = f"{counted(len(regressed), 'question')} regressed{named}, {len(fixed)} fixed"
    if pairs.undecided:
        reason += f", and of {counted(pairs.undecided, 'more question')} it is not known"
    best = _flipped_p(*pairs.filled(0.0, 1.0))
    if best is not None and best <= ERROR:
        return ConditionResult(condition.text, ConditionOutcome.FAILED, f"{reason}: a loss (p {best:.2g})")
    worst = pairs.filled(1.0, 0.0)
    p_value = _flipped_p(*worst)
    more_regressed = (worst[1].means < worst[0].means).sum() > (worst[0].means < worst[1].means).sum()
    if p_value is None and not more_regressed:
        return ConditionResult(condition.text, ConditionOutcome.PASSED, reason)
    at_best = "" if pairs.comparable == pairs.total else " at best"
    shown = "" if best is None else f" (p {best:.2g}{at_best})"
    return ConditionResult(
        condition.text, ConditionOutcome.UNSETTLED, f"{reason}: the test cannot tell{shown}"
    )


def _flipped_p(before: ByQuestion, after: ByQuestion) -> float | None:
    """Return the p-value of the exact test if fewer of the sessions pass than before, else None."""
    found = paired_difference(before, after, (0.0, 1.0))
    return found.p_value if found.estimate is not None and found.estimate < 0 else None


def _named(name: str, comparison: Comparison) -> tuple[MetricChange | None, Statistic]:
    """Return the metric that a condition names, and what of it: `cost.median` the median of `cost`."""
    by_name = {each.metric: each for each in comparison.metrics}
    base, _, statistic = name.rpartition(".")
    if name not in by_name and base in by_name and statistic in set(Statistic):
        return by_name[base], Statistic(statistic)
    return by_name.get(name), Statistic.MEAN


def _accepted(condition: LossCondition, change: MetricChange, statistic: Statistic) -> str:
    """Return what a condition accepts, in words. Raises InputError for a margin that fits no such metric."""
    low, high = change.measured.bounds
    is_share = (low, high) == (0.0, 1.0)
    if problem := _misfit(condition, change, is_share=is_share):
        raise FieldError("fail_if", f"{condition.metric} {problem}", repr(condition.text))
    if is_share:
        return f"a loss of {condition.margin * 100:g} points ({condition.margin:g})"
    if condition.unit:
        direction = "lower" if change.measured.higher_is_better else "higher"
        return f"a {_NAMES[statistic]} {condition.margin * 100:g}% {direction}"
    return f"a loss of {condition.margin:g} {change.measured.unit}"


def _misfit(condition: LossCondition, change: MetricChange, *, is_share: bool) -> str:
    """Return why a margin does not fit a metric, and an example that does; empty if it fits."""
    low, high = change.measured.bounds
    difference = change.tested
    if math.isfinite(high - low):
        own = "such as 5%, 5 points or 0.05" if is_share else f"in its unit, such as {(high - low) / 20:g}"
        if condition.margin >= high - low or (condition.unit and not is_share):
            return f"lies between {low:g} and {high:g}; expected a margin {own}"
    elif condition.unit == "point":
        return "is not a share; expected a margin such as 10%"
    elif change.measured.higher_is_better and condition.unit and condition.margin >= 1:
        return "cannot fall by 100% or more; expected a margin such as 10%"
    elif difference.estimate is not None and difference.estimate != difference.is_ratio:
        if difference.is_ratio and not condition.unit:
            return "is compared as a factor; expected a margin such as 10%"
        if condition.unit and not difference.is_ratio:
            return f"is 0 or may be negative; expected a margin in {change.measured.unit}"
    return ""


def _judge_with_unknown(
    condition: LossCondition, change: MetricChange, missing: int, accepted: str
) -> ConditionResult:
    """Return the outcome that holds whatever the unknown values are, if there is one."""
    total = change.pairs.total
    unknown = f"{missing} of {counted(total, 'question')} cannot be compared"
    low, high = change.measured.bounds
    if math.isinf(high - low):
        reason = f"{unknown}, and what is unknown of {condition.metric} has no bounds"
        return ConditionResult(condition.text, ConditionOutcome.UNSETTLED, reason, accepted)
    if not change.measured.higher_is_better:
        low, high = high, low
    cases = [
        difference_of(
            *change.pairs.filled(*fill),
            change.measured,
            is_paired=change.pairs.is_paired,
            error=change.judge_error,
        ).at()
        for fill in ((high, low), (low, high))
    ]
    worst, best = cases
    if isinstance(worst, TooLittle) or isinstance(best, TooLittle):
        why = next(case.reason for case in cases if isinstance(case, TooLittle))
        return ConditionResult(condition.text, ConditionOutcome.UNSETTLED, f"{unknown}; {why}", accepted)
    at_worst, at_best = (_interval(condition, change, case) for case in (worst, best))
    if _outcome(condition, change, worst) is ConditionOutcome.PASSED:
        return ConditionResult(
            condition.text, ConditionOutcome.PASSED, f"{unknown}; at worst {at_worst}", accepted
        )
    if _outcome(condition, change, best) is ConditionOutcome.FAILED:
        return ConditionResult(
            condition.text, ConditionOutcome.FAILED, f"{unknown}; at best {at_best}", accepted
        )
    reason = f"{unknown}; at best {at_best}, at worst {at_worst}"
    return ConditionResult(condition.text, ConditionOutcome.UNSETTLED, reason, accepted)


def _outcome(condition: LossCondition, change: MetricChange, difference: Difference) -> ConditionOutcome:
    """Return whether the data show a loss within the margin, beyond it, or neither."""
    is_higher_better = change.measured.higher_is_better
    if difference.is_ratio:
        bound = 1 - condition.margin if is_higher_better else 1 + condition.margin
    else:
        bound = -condition.margin if is_higher_better else condition.margin
    if is_higher_better:
        is_within, is_beyond = difference.is_at_least(bound), difference.is_less_than(bound)
    else:
        is_within, is_beyond = difference.is_at_most(bound), difference.is_more_than(bound)
    return (
        ConditionOutcome.PASSED
        if is_within
        else ConditionOutcome.FAILED
        if is_beyond
        else ConditionOutcome.UNSETTLED
    )


def _interval(condition: LossCondition, change: MetricChange, difference: Difference) -> str:
    """Return how much worse the second run is, with the interval."""
    values = [difference.low, difference.estimate, difference.high]
    if difference.is_ratio:
        values = [value - 1 for value in values]
    low, loss, high = (
        [0.0 - value for value in reversed(values)] if change.measured.higher_is_better else values
    )
    form = "{:.1%}" if condition.unit and change.measured.unit != "share" else "{:.3g}"
    return f"worse by {form.format(loss)} ({form.format(low)} to {form.format(high)})"


def _observed(change: MetricChange) -> str:
    """Return the observed values of a metric whose difference has no interval."""
    if change.first is None or change.second is None:
        return "nothing to compare"
    return f"{change.first:.4g}, then {change.second:.4g} {change.measured.unit}, without an interval"


def questions_needed(difference: Difference, margin: float) -> tuple[int, int] | None:
    """Return the fewest and the most questions that settle a margin with 80% power if nothing changed.

    None if no number does, or if there are as many already.

    The plan assumes that nothing changed, and asks for 80% power: of ten samples of that size, eight settle
    the gate. What it cannot know is how many questions have another outcome by chance: its two numbers are
    for the lowest and the highest share, or spread, that the data at hand allow with 95% confidence.
    tests/false_passes.py measures how often the plan holds. Source, for shares: J.-M. Nam, "Establishing
    equivalence of two treatments and sample size requirements in matched-pairs design", Biometrics 53 (1997).
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
