"""Two samples compared: each metric's difference, the sessions that flipped, and what only one has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple

from spangrade.evaluator.grading.policy import Verdict
from spangrade.evaluator.statistics.comparison.differences import (
    MIN_QUESTIONS,
    Difference,
    TooLittle,
    holm,
    paired_difference,
    unpaired_difference,
)
from spangrade.evaluator.statistics.comparison.parting import parting
from spangrade.evaluator.statistics.comparison.sample import PASSED, Graded, Measured, Sample, measured
from spangrade.evaluator.statistics.intervals import CONFIDENCE
from spangrade.tracer.errors import InputError

SIGNIFICANT = 1 - CONFIDENCE

_Question = tuple[str, tuple[Graded, ...], tuple[Graded, ...]]  # its id, its sessions in both samples


class Change(StrEnum):
    """What the values of a metric show. Without a better direction they are only higher or lower."""

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    LOWER = "lower"
    NONE = "no difference shown"
    TOO_LITTLE = "too little data"


class MetricChange(NamedTuple):
    """A metric in both samples.

    `first` and `second` are its means over the questions compared, None without any; `questions` is their
    number, that of the smaller sample if they are not the same. `difference` says why if there is too little
    data for one. `corrected_p` is its p-value corrected by Holm's method for all metrics that were compared;
    the change is one if that is below 0.05. `paired` says whether the same questions were compared. `note`
    says what makes the two hard to compare.
    """

    metric: str
    measured: Measured
    first: float | None
    second: float | None
    questions: int
    difference: Difference | TooLittle
    corrected_p: float | None
    change: Change
    paired: bool
    inconclusive: tuple[int, int]
    note: str = ""


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
    """What differs between two samples; of sessions without a question, their ids stand for questions."""

    first: Sample
    second: Sample
    metrics: tuple[MetricChange, ...]
    fixed: tuple[Flip, ...]
    broken: tuple[Flip, ...]
    inconclusive_in_first: tuple[Flip, ...]
    inconclusive_in_second: tuple[Flip, ...]
    only_in_first: tuple[str, ...]
    only_in_second: tuple[str, ...]
    changed_questions: tuple[str, ...]
    metrics_only_in_first: tuple[str, ...] = ()
    metrics_only_in_second: tuple[str, ...] = ()


def compare(first: Sample, second: Sample, only: Collection[str] = ()) -> Comparison:
    """Compare two samples, by `only` these metrics if any are named.

    Raises InputError for a metric that neither has, and if scipy is not installed.
    """
    names = [name for name in first.values if name in second.values]
    if unknown := [name for name in only if name not in names]:
        raise InputError(f'metric "{unknown[0]}" is not in both; there are {", ".join(names)}')
    changes = [_metric_change(name, first, second) for name in names if not only or name in only]
    before, after = first.by_key(), second.by_key()
    both = [(key, tuple(before[key]), tuple(after[key])) for key in sorted(before.keys() & after.keys())]
    return Comparison(
        first,
        second,
        tuple(_corrected(changes)),
        _flips(both, _is_broken, _FAILING, of_first=True),
        _flips(both, _is_broken, _FAILING, of_first=False),
        _flips(both, _is_only_open, _OPEN, of_first=True),
        _flips(both, _is_only_open, _OPEN, of_first=False),
        tuple(sorted(before.keys() - after.keys())),
        tuple(sorted(after.keys() - before.keys())),
        tuple(q for q, _, _ in both if _has_changed(q, first, second)),
        tuple(name for name in first.values if name not in second.values),
        tuple(name for name in second.values if name not in first.values),
    )


def _has_changed(question_id: str, first: Sample, second: Sample) -> bool:
    """Return whether the content of a question is known to differ."""
    digests = [sample.questions.get(question_id) for sample in (first, second)]
    return None not in digests and digests[0] != digests[1]


def _metric_change(name: str, first: Sample, second: Sample) -> MetricChange:
    """Return the change of a metric, without the correction for the number of metrics.

    The questions that both have are compared; if these are too few, but each sample has enough, all of both.
    """
    info = measured(name, second, first)
    values = first.values[name], second.values[name]
    common = sorted(values[0].keys() & values[1].keys())
    is_paired = len(common) >= MIN_QUESTIONS or (bool(common) and min(map(len, values)) < MIN_QUESTIONS)
    if is_paired:
        pairs = [(values[0][key], values[1][key]) for key in common]
        difference = paired_difference(pairs, info.bounds)
        if first.session_ids == second.session_ids and all(a == b for a, b in pairs):
            difference = Difference(0.0, 0.0, 0.0, 1.0, len(pairs), "the same sessions and values")
        samples: Sequence[Sequence[Sequence[float]]] = ([a for a, _ in pairs], [b for _, b in pairs])
    else:
        samples = (list(values[0].values()), list(values[1].values()))
        difference = unpaired_difference(*samples, info.bounds)
    means = [fmean(map(fmean, sample)) if sample else None for sample in samples]
    return MetricChange(
        name,
        info,
        means[0],
        means[1],
        min(map(len, samples)),
        difference,
        None,
        Change.TOO_LITTLE,
        is_paired,
        (first.inconclusive.get(name, 0), second.inconclusive.get(name, 0)),
        "; ".join(_notes(name, first, second)),
    )


def _notes(name: str, first: Sample, second: Sample) -> Iterator[str]:
    """Yield what is not the same of a metric in two samples, of `passed` which metrics gated otherwise."""
    if name == PASSED:
        shared = first.metrics.keys() & second.metrics.keys()
        gates = [each for each in sorted(shared) if _differ("thresholds", each, first, second)]
        if gates:
            yield f"other gates: {', '.join(gates)}"
    elif name in first.metrics and name in second.metrics:
        if _differ("versions", name, first, second):
            versions = [[v or "unknown" for v in sample.metrics[name].versions] for sample in (first, second)]
            yield f"another version: {' and '.join(versions[0])}, then {' and '.join(versions[1])}"
        if _differ("thresholds", name, first, second):
            thresholds = [
                ["none" if t is None else f"{t:g}" for t in sample.metrics[name].thresholds]
                for sample in (first, second)
            ]
            yield f"another threshold: {' and '.join(thresholds[0])}, then {' and '.join(thresholds[1])}"


def _differ(field: str, metric: str, first: Sample, second: Sample) -> bool:
    """Return whether the thresholds, or the versions, of a metric are not the same throughout."""
    values = {*getattr(first.metrics[metric], field), *getattr(second.metrics[metric], field)}
    return len(values) > 1


def _corrected(changes: list[MetricChange]) -> Iterator[MetricChange]:
    """Yield the changes with their p-values corrected for the number of metrics compared."""
    differences = [change.difference for change in changes]
    corrected = iter(holm([each.p_value for each in differences if isinstance(each, Difference)]))
    for change in changes:
        if isinstance(change.difference, TooLittle):
            yield change
        else:
            p_value = next(corrected)
            kind = _kind(change.measured.higher_is_better, change.difference, p_value)
            yield change._replace(corrected_p=p_value, change=kind)


def _kind(higher_is_better: bool | None, difference: Difference, p_value: float) -> Change:
    if p_value >= SIGNIFICANT:
        return Change.NONE
    is_higher = difference.estimate > (1.0 if difference.is_ratio else 0.0)
    if higher_is_better is None:
        return Change.HIGHER if is_higher else Change.LOWER
    return Change.BETTER if is_higher is higher_is_better else Change.WORSE


def _step(paths: Sequence[Sequence[str] | None]) -> str:
    """Return where two trajectories part, as `step 2: find_order, then cancel_order`; empty if they do not.

    It is also empty if one of them is not recorded.
    """
    known = [path for path in paths if path is not None]
    parted = parting(known) if len(known) == len(paths) else None
    return "" if parted is None else f"step {parted.step}: {', then '.join(parted.names)}"


_FAILING = (Verdict.FAILED, Verdict.BROKEN)
_OPEN = (Verdict.INCONCLUSIVE,)


def _is_broken(others: Sequence[Graded], these: Sequence[Graded]) -> bool:
    """Return whether fewer of these sessions of a question pass than of the others, and some fail."""
    shares = [sum(g.verdict == Verdict.PASSED for g in each) / len(each) for each in (others, these)]
    return shares[1] < shares[0] and any(g.verdict in _FAILING for g in these)


def _is_only_open(others: Sequence[Graded], these: Sequence[Graded]) -> bool:
    """Return whether some of these sessions are inconclusive, and none of the others."""
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
