"""Two samples compared: the difference of each metric, the questions that flipped or are in one alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from math import isinf
from shlex import quote
from statistics import fmean
from typing import NamedTuple

from spangrade.evaluator.derive.sync.workers import few_collections
from spangrade.evaluator.grading.run_details import rules_version
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.statistics.agreement.agreement import MIN_LABELS
from spangrade.evaluator.statistics.agreement.statistics import Confusion
from spangrade.evaluator.statistics.comparison.by_question import EachQuestion
from spangrade.evaluator.statistics.comparison.changes import (
    ChangedQuestion,
    changed_questions,
    changes_of_metric,
    incomparable_questions,
)
from spangrade.evaluator.statistics.comparison.differences import (
    Difference,
    NeedsScipy,
    Tested,
    TooLittle,
    holm,
    paired_difference,
    unpaired_difference,
)
from spangrade.evaluator.statistics.comparison.graded import Graded, where_paths_differ
from spangrade.evaluator.statistics.comparison.means import mean_difference, median_difference
from spangrade.evaluator.statistics.comparison.pairs import (
    Common,
    Pairs,
    are_of_other_questions,
    common_questions,
    pairs_of,
)
from spangrade.evaluator.statistics.comparison.sample import PASSED, Measured, Sample, is_judged, measured
from spangrade.evaluator.statistics.intervals import ERROR, ScipyMissingError, rates_interval
from spangrade.tracer.base.errors import InputError

_Question = tuple[str, tuple[Graded, ...], tuple[Graded, ...]]  # its id, its sessions in both samples


class Change(StrEnum):
    """What the values of a metric show. Without a better direction they are only higher or lower."""

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    LOWER = "lower"
    NONE = "no difference shown"
    TOO_LITTLE = "too little data"


class Statistic(StrEnum):
    """What is compared of a metric without bounds; of others it is the mean."""

    MEAN = "mean"
    MEDIAN = "median"
    GEOMEAN = "geomean"


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


class MetricChange(NamedTuple):
    """A metric in both samples.

    `first` and `second` are its means over the questions compared, None without any; `questions` is their
    number, that of the smaller sample if they are not the same. `tested` says why if there is too little data
    for a difference. `corrected_p` is its p-value corrected by Holm's method for its family: `passed` alone,
    the metrics of conditions, all others. `error` is the error with which it is tested there. `pairs` are the
    questions that it is about, also those without a value in both. `note` says what it was measured by
    otherwise in the second sample. `judge_error` is that of the judge who rated it, None if there is none or
    its error is not known.
    """

    metric: str
    measured: Measured
    first: float | None
    second: float | None
    questions: int
    tested: Tested | TooLittle
    corrected_p: float | None
    pairs: Pairs
    note: str = ""
    judge_error: MeasuredError | None = None
    error: float = ERROR

    @property
    def difference(self) -> Difference | TooLittle:
        """The difference with an interval that has no 0 if and only if `change` is one."""
        return self.tested.at(self.error)

    @property
    def change(self) -> Change:
        """What the values show: a change if the interval has no 0, of too little data if p is below 0.05."""
        found = self.difference
        if isinstance(found, TooLittle) and (self.corrected_p is None or self.corrected_p > ERROR):
            return Change.TOO_LITTLE
        if not found.direction:
            return Change.NONE
        if self.measured.higher_is_better is None:
            return Change.HIGHER if found.direction > 0 else Change.LOWER
        is_better = (found.direction > 0) is self.measured.higher_is_better
        return Change.BETTER if is_better else Change.WORSE


class Flip(NamedTuple):
    """A question (or a session without one) whose sessions have other verdicts in the second sample.

    `reason` is that of a session that does not pass; `step` is where its trajectory and that of a session of
    the other sample, one that passes if any does, part.
    """

    key: str
    first: tuple[Graded, ...]
    second: tuple[Graded, ...]
    reason: str
    step: str


class Comparison(NamedTuple):
    """What differs between two samples; of sessions without a question, their ids stand for questions.

    `passed` is what they know of which sessions passed. `excluded` says what was not compared because it was
    graded otherwise, empty if nothing was or if that is allowed. In a comparison of two versions, prompts or
    models (`by`), `unrecorded` sessions record none of them and are in neither sample.
    """

    first: Sample
    second: Sample
    metrics: tuple[MetricChange, ...]
    fixed: tuple[Flip, ...]
    regressed: tuple[Flip, ...]
    inconclusive_in_first: tuple[Flip, ...]
    inconclusive_in_second: tuple[Flip, ...]
    only_in_first: tuple[str, ...]
    only_in_second: tuple[str, ...]
    passed: Pairs
    unanswered_in_first: tuple[str, ...] = ()
    unanswered_in_second: tuple[str, ...] = ()
    undecided: tuple[int, int] = (0, 0)
    excluded: str = ""
    changed_questions: tuple[ChangedQuestion, ...] = ()
    metrics_only_in_first: tuple[str, ...] = ()
    metrics_only_in_second: tuple[str, ...] = ()
    by: str = ""
    unrecorded: int = 0

    def __repr__(self) -> str:
        return f"<{self.first.label} against {self.second.label}: {self.flips}>"

    @property
    def flips(self) -> str:
        """How many questions flipped, whatever is unknown of them: `7 regressed, 0 fixed`."""
        regressed, fixed = self.passed.flipped
        decided = {*regressed, *fixed}
        lost = sum(
            one.key not in decided and all(each.verdict not in _OPEN for each in one.first)
            for one in self.inconclusive_in_second
        )
        others = self.passed.undecided - lost
        parts = [f"{len(regressed)} regressed, {len(fixed)} fixed"]
        parts += [f"{lost} not known any more"] if lost else []
        parts += [f"{others} not known"] if others > 0 else []
        return ", ".join(parts)

    @property
    def careful(self) -> tuple[str, ...]:
        """What else than the agent's work differs: another agent, other questions, other rules."""
        first, second = self.first, self.second
        found = []
        if first.agents and second.agents and first.agents.isdisjoint(second.agents):
            agents = (", ".join(sorted(side.agents)) for side in (first, second))
            found.append("{} is of another agent: {}, not {}".format(first.label, *agents))
        questions = [side.keys_by_kind[0] for side in (first, second)]
        if all(questions) and (others := questions[0] ^ questions[1]):
            none = ": no question is in both" if questions[0].isdisjoint(questions[1]) else ""
            here, there = len(questions[1] - questions[0]), len(questions[0] - questions[1])
            count = f"{there} in {first.label} alone, {here} in {second.label} alone"
            found.append(f"{first.label} has other questions{none or f': {count}'}" if others else "")
        return (*found, *([self.other_rules] if self.other_rules else ()))

    @property
    def other_rules(self) -> str:
        """That the samples were judged by different rules, and the command that grades the older again."""
        first, second = self.first, self.second
        if not (first.rules and second.rules) or (first.rules == second.rules and len(first.rules) == 1):
            return ""
        older = [side for side in (first, second) if side.rules != {rules_version()}]
        commands = [_graded_again(side) for side in older]
        return f"{' and '.join(one.label for one in older)} judged by other rules: {', then '.join(commands)}"

    @property
    def headline(self) -> str:
        """What `passed` shows, as `7 regressed, 0 fixed: worse`; empty if it cannot be compared."""
        passed = next((each for each in self.metrics if each.metric == PASSED), None)
        if passed is None or passed.first is None or passed.second is None:
            return self.flips if self.inconclusive_in_second and self.passed.is_paired else ""
        of_known = " by what is known" if self.passed.comparable < self.passed.total else ""
        shares = f"{passed.first:.0%} passed, then {passed.second:.0%}"
        return f"{self.flips if passed.pairs.is_paired else shares}: {passed.change}{of_known}"


@few_collections()
def compare(
    first: Sample,
    second: Sample,
    only: Collection[str] = (),
    *,
    named: Collection[str] = (),
    allow_changed: bool = False,
) -> Comparison:
    """Compare two samples, by `only` these metrics if any are named; `named` are those that conditions name.

    `passed` is tested alone, then the metrics of conditions as one family, then all others as one.

    Without scipy, shares are tested as with it; of what takes Student's t or a bootstrap there is the mean.

    Questions that expect something else in the second sample, and metrics that were measured by another
    version, gate or judge, are compared only with `allow_changed`. Raises InputError for a metric that
    neither has.
    """
    measured_in = [dict.fromkeys([*one.values, *one.unknown]) for one in (first, second)]
    with_values = dict.fromkeys([*first.values, *second.values])
    names = [name for name in with_values if all(name in each for each in measured_in)]
    if unknown := [name for name in only if name not in names]:
        raise InputError(f'metric "{unknown[0]}" is not in both; there are {", ".join(names)}')
    changed = changed_questions(first, second)
    common = common_questions(first, second, others=allow_changed)
    pairs = {
        name: _pairs(name, first, second, common, None if allow_changed else changed)
        for name in (PASSED, *names)
    }
    changes = [
        _metric_change(name, first, second, pairs[name], changed)
        for name in names
        if not only or name in only
    ]
    before, after = first.by_key(), second.by_key()
    both = [
        (key, tuple(before[key]), tuple(after[key]))
        for key in sorted(before.keys() & after.keys())
        if [one.verdict for one in before[key]] != [one.verdict for one in after[key]]
    ]
    return Comparison(
        first,
        second,
        tuple(_corrected(changes, named)),
        _flips(both, _is_broken, _FAILING, of_first=True),
        _flips(both, _is_broken, _FAILING, of_first=False),
        _flips(both, _is_only_open, _OPEN, of_first=True),
        _flips(both, _is_only_open, _OPEN, of_first=False),
        tuple(sorted(before.keys() - after.keys() - second.unanswered)),
        tuple(sorted(after.keys() - before.keys() - first.unanswered)),
        pairs[PASSED],
        tuple(sorted(first.unanswered)),
        tuple(sorted(second.unanswered)),
        (_undecided(first), _undecided(second)),
        "" if allow_changed else _excluded(first, second, changed),
        changed,
        tuple(name for name in first.values if name not in measured_in[1]),
        tuple(name for name in second.values if name not in measured_in[0]),
    )


def _excluded(first: Sample, second: Sample, changed: Sequence[ChangedQuestion]) -> str:
    if changes_of_metric(PASSED, first, second, changed):
        return "the gates are not the same"
    if are_of_other_questions(first, second):
        return "no question is in both"
    return f"{len(changed)} changed" if changed else ""


def _undecided(sample: Sample) -> int:
    return sum(one.verdict in (Verdict.INCONCLUSIVE, Verdict.BROKEN) for one in sample.graded)


def _pairs(
    name: str,
    first: Sample,
    second: Sample,
    common: Common,
    changed: Sequence[ChangedQuestion] | None,
) -> Pairs:
    """Return what both samples know of a metric; `changed` is None if what was graded otherwise counts."""
    if changed is None:
        return pairs_of(name, first, second, common)
    is_measured_otherwise = bool(changes_of_metric(name, first, second, changed))
    incomparable = incomparable_questions(name, changed)
    return pairs_of(name, first, second, common, incomparable, none=is_measured_otherwise)


def difference_of(
    first: EachQuestion,
    second: EachQuestion,
    info: Measured,
    *,
    is_paired: bool,
    statistic: Statistic = Statistic.MEAN,
    error: MeasuredError | None = None,
) -> Tested | TooLittle:
    """Return the values of two samples tested for a difference, by question if they are paired.

    `error` is that of the judge who gave the values.
    """
    lowest, highest = info.bounds
    if isinf(lowest) or isinf(highest):
        if statistic is Statistic.MEAN:
            return mean_difference(first, second, lowest, is_paired=is_paired)
        if statistic is Statistic.MEDIAN:
            return median_difference(first, second, lowest, is_paired=is_paired)
    if is_paired:
        found = paired_difference(first, second, info.bounds)
    else:
        found = unpaired_difference(first, second, info.bounds)
    if isinstance(found, TooLittle) or isinf(highest - lowest):
        return found
    found = found._replace(span=highest - lowest)
    return found if error is None else error.widen(found)


def _metric_change(
    name: str, first: Sample, second: Sample, pairs: Pairs, changed: Sequence[ChangedQuestion]
) -> MetricChange:
    """Return the change of a metric, without the correction for the number of metrics."""
    info = measured(name, second, first)
    known = pairs.known()
    error = None if isinf(info.bounds[1] - info.bounds[0]) else _judge_error(name, first, second)
    is_same = len(known[0]) > 0 and first.session_ids == second.session_ids and known[0].is_same_as(known[1])
    if is_same and pairs.is_paired:
        same = "the same sessions and values"
        tested: Tested | TooLittle = Tested(0.0, lambda _: (0.0, 0.0), 1.0, len(known[0]), same)
    else:
        try:
            tested = difference_of(*known, info, is_paired=pairs.is_paired, error=error)
        except ScipyMissingError as missing:
            tested = NeedsScipy(str(missing))
    means = [fmean(side.means.tolist()) if len(side) else None for side in known]
    note = "; ".join(changes_of_metric(name, first, second, changed))
    return MetricChange(
        name,
        info,
        means[0],
        means[1],
        min(map(len, known)),
        tested,
        None,
        pairs,
        note,
        error,
    )


def _judge_error(name: str, first: Sample, second: Sample) -> MeasuredError | None:
    """Return the error of the judge who rated a metric in both, by the labels that either sample knows."""
    if not is_judged(name) or first.judges != second.judges:
        return None
    return judge_error(first.labelled.get(name) or second.labelled.get(name))


def judge_error(confusion: Confusion | None) -> MeasuredError | None:
    """Return the error of a judge; None below 20 labels, or if people passed all of them or none.

    A judge that errs as often in both samples makes a difference smaller: it shows the share TPR - FPR of it,
    where TPR is the share that it passes of the sessions that people passed, and FPR of those that they
    failed. What is shown is therefore all of the difference at most, and at least the lower end of the 95%
    interval of that share (Agresti-Caffo). W. J. Rogan, B. Gladen, "Estimating prevalence from the results of
    a screening test", American Journal of Epidemiology 107 (1978). tests/coverage_of_agreement.py simulates
    the intervals.
    """
    if confusion is None or sum(confusion) < MIN_LABELS:
        return None
    failed, passed = confusion.pass_fail + confusion.fail_fail, confusion.pass_pass + confusion.fail_pass
    if not failed or not passed:
        return None
    least_shown, _ = rates_interval((confusion.pass_fail, failed), (confusion.pass_pass, passed))
    return MeasuredError(sum(confusion), confusion.agreed, least_shown)


def _corrected(changes: Sequence[MetricChange], named: Collection[str]) -> list[MetricChange]:
    """Return the changes with their p-values corrected for the number of metrics of their family.

    What only scipy tests counts where it is not installed, too: as if it showed nothing.
    """
    named = {*named, *(name.rpartition(".")[0] for name in named)}
    families: dict[int, list[int]] = {}
    for index, change in enumerate(changes):
        if change.tested.p_value is not None or isinstance(change.tested, NeedsScipy):
            family = 0 if change.metric == PASSED else 1 if change.metric in named else 2
            families.setdefault(family, []).append(index)
    corrected = list(changes)
    for indexes in families.values():
        tested = [changes[index].tested for index in indexes]
        p_values = holm([1.0 if isinstance(one, NeedsScipy) else one.p_value or 0.0 for one in tested])
        for index, one, (p_value, error) in zip(indexes, tested, p_values, strict=True):
            if not isinstance(one, NeedsScipy):
                corrected[index] = changes[index]._replace(corrected_p=p_value, error=error)
    return corrected


def _step(paths: Sequence[Sequence[str] | None]) -> str:
    """Return where two trajectories part, as `step 2: find_order, then cancel_order`; empty if they do not.

    It is also empty if one of them is not recorded.
    """
    known = [path for path in paths if path is not None]
    parted = where_paths_differ(known) if len(known) == len(paths) else None
    return "" if parted is None else f"step {parted.step}: {', then '.join(parted.names)}"


def _graded_again(sample: Sample) -> str:
    """Return the command that grades the sessions of a sample by the rules of today."""
    if sample.run_id is None or sample.run_id != sample.stored_as:
        return f"grade {sample.label} again"
    dataset = f"{quote(sample.dataset)} " if sample.dataset else ""
    return f"`spangrade grade {dataset}--of-run {sample.run_id[:12]} --name {quote(sample.label)}`"


_FAILING = (Verdict.FAILED,)
_OPEN = (Verdict.INCONCLUSIVE, Verdict.BROKEN)  # whether they would have passed is not known


def _is_broken(others: Sequence[Graded], these: Sequence[Graded]) -> bool:
    """Return whether fewer of these sessions of a question pass than of the others, whatever is unknown."""
    at_worst, at_best = _counts(others, Verdict.PASSED), _counts(these, Verdict.PASSED, *_OPEN)
    return at_best[0] * at_worst[1] < at_worst[0] * at_best[1]


def _counts(graded: Sequence[Graded], *verdicts: Verdict) -> tuple[int, int]:
    """Return how many sessions have these verdicts, of those that could pass."""
    found = sum(one.verdict in verdicts for one in graded)
    return found, sum(one.verdict in (Verdict.PASSED, *_FAILING, *_OPEN) for one in graded)


def _is_only_open(others: Sequence[Graded], these: Sequence[Graded]) -> bool:
    """Return whether some of these sessions are inconclusive or broke, and none of the others."""
    return any(g.verdict in _OPEN for g in these) and not any(g.verdict in _OPEN for g in others)


def _flips(
    both: Iterable[_Question],
    is_flip: Callable[[Sequence[Graded], Sequence[Graded]], bool],
    verdicts: Collection[Verdict],
    *,
    of_first: bool,
) -> tuple[Flip, ...]:
    """Return the questions whose sessions in the first, or in the second, are flips from those of the other.

    The reason is that of a session there that has one of these verdicts.
    """
    found = []
    for key, first, second in both:
        these, others = (first, second) if of_first else (second, first)
        if is_flip(others, these):
            shown = next(each for each in these if each.verdict in verdicts)
            other = next((each for each in others if each.verdict == Verdict.PASSED), others[0])
            paths = [one.trajectory for one in ((shown, other) if of_first else (other, shown))]
            found.append(Flip(key, first, second, shown.reason, _step(paths)))
    return tuple(found)
