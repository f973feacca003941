"""Two runs compared: each metric's difference, the sessions that flipped, and what only one of them has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple

from spangrade.evaluator.comparison.differences import (
    CONFIDENCE,
    Difference,
    holm,
    paired_difference,
    unpaired_difference,
)
from spangrade.evaluator.comparison.sample import Graded, Measured, Sample, measured
from spangrade.evaluator.grading.policy import Verdict
from spangrade.tracer.errors import InputError

SIGNIFICANT = 1 - CONFIDENCE


class Change(StrEnum):
    """What the values of a metric show. Without a better direction they are only higher or lower."""

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    LOWER = "lower"
    NONE = "no difference shown"
    TOO_LITTLE = "too little data"


class MetricChange(NamedTuple):
    """A metric in both runs.

    `first` and `second` are its means over the questions compared, None without any; `questions` is their
    number, that of the smaller sample if they are not the same. `difference` is None if there is too little
    data. `corrected_p` is its p-value corrected by Holm's method for all metrics that
    were compared; the change is one if that is below 0.05. `paired` says whether the same questions were
    compared. `note` says what makes the two hard to compare.
    """

    metric: str
    measured: Measured
    first: float | None
    second: float | None
    questions: int
    difference: Difference | None
    corrected_p: float | None
    change: Change
    paired: bool
    inconclusive: tuple[int, int]
    note: str = ""


class Flip(NamedTuple):
    """A question (or a session without one) of which more, or fewer, sessions pass in the second run.

    `reason` is that of a session that does not pass; `step` is where the trajectories of the first two
    sessions part.
    """

    key: str
    first: tuple[Graded, ...]
    second: tuple[Graded, ...]
    reason: str
    step: str


class Comparison(NamedTuple):
    """What differs between two runs; of sessions without a question, their ids stand for questions."""

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


def compare(first: Sample, second: Sample, only: Collection[str] = ()) -> Comparison:
    """Compare two samples, by `only` these metrics if any are named.

    Raises InputError for a metric that neither has, and if scipy is not installed.
    """
    names = [name for name in first.values if name in second.values]
    if unknown := [name for name in only if name not in names]:
        raise InputError(f'metric "{unknown[0]}" is not in both runs; there are {", ".join(names)}')
    changes = [_metric_change(name, first, second) for name in names if not only or name in only]
    flips = list(_flips(first, second))
    keys = (first.by_key().keys(), second.by_key().keys())
    return Comparison(
        first,
        second,
        tuple(_corrected(changes)),
        tuple(flip for flip in flips if _passing(flip.second) > _passing(flip.first) and _fails(flip.first)),
        tuple(flip for flip in flips if _passing(flip.second) < _passing(flip.first) and _fails(flip.second)),
        tuple(flip for flip in flips if _is_inconclusive(flip.first) and not _is_inconclusive(flip.second)),
        tuple(flip for flip in flips if _is_inconclusive(flip.second) and not _is_inconclusive(flip.first)),
        tuple(sorted(keys[0] - keys[1])),
        tuple(sorted(keys[1] - keys[0])),
        tuple(sorted(q for q, d in first.questions.items() if second.questions.get(q, d) != d)),
    )


def _metric_change(name: str, first: Sample, second: Sample) -> MetricChange:
    """Return the change of a metric, without the correction for the number of metrics."""
    info = measured(name, second, first)
    values = first.values[name], second.values[name]
    common = sorted(values[0].keys() & values[1].keys())
    if common:
        pairs = [(values[0][key], values[1][key]) for key in common]
        difference = paired_difference(pairs, info.bounds)
        same = first.run_id == second.run_id or _same_sessions(first, second)
        if same and all(a == b for a, b in pairs):
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
        bool(common),
        (first.inconclusive.get(name, 0), second.inconclusive.get(name, 0)),
        "; ".join(_notes(name, first, second)),
    )


def _notes(name: str, first: Sample, second: Sample) -> Iterator[str]:
    """Yield what is not the same of a metric in two runs."""
    before, after = first.metrics.get(name), second.metrics.get(name)
    if before is None or after is None:
        return
    if before.version != after.version:
        yield f"another version: {before.version or 'unknown'}, then {after.version or 'unknown'}"
    if before.threshold != after.threshold:
        thresholds = ("none" if m.threshold is None else f"{m.threshold:g}" for m in (before, after))
        yield f"another threshold: {', then '.join(thresholds)}"


def _corrected(changes: list[MetricChange]) -> Iterator[MetricChange]:
    """Yield the changes with their p-values corrected for the number of metrics compared."""
    p_values = holm([change.difference.p_value for change in changes if change.difference])
    corrected = iter(p_values)
    for change in changes:
        if change.difference is None:
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


def _same_sessions(first: Sample, second: Sample) -> bool:
    return {g.session_id for g in first.graded} == {g.session_id for g in second.graded}


def _flips(first: Sample, second: Sample) -> Iterator[Flip]:
    """Yield the questions that both runs have and whose verdicts differ."""
    before, after = first.by_key(), second.by_key()
    for key in sorted(before.keys() & after.keys()):
        one, two = tuple(before[key]), tuple(after[key])
        if sorted(g.verdict for g in one) != sorted(g.verdict for g in two):
            worse = two if _passing(two) <= _passing(one) else one
            reason = next((g.reason for g in worse if g.verdict != Verdict.PASSED), "")
            yield Flip(key, one, two, reason, parting(one[0].trajectory, two[0].trajectory))


def parting(first: Sequence[str] | None, second: Sequence[str] | None) -> str:
    """Return where two trajectories part, as `step 2: find_order, then cancel_order`; empty if they do not.

    It is also empty if one of them is not recorded.
    """
    if first is None or second is None:
        return ""
    for step in range(max(len(first), len(second))):
        names = [path[step] if step < len(path) else "the end" for path in (first, second)]
        if names[0] != names[1]:
            return f"step {step + 1}: {names[0]}, then {names[1]}"
    return ""


def _passing(graded: Sequence[Graded]) -> float:
    return sum(g.verdict == Verdict.PASSED for g in graded) / len(graded)


def _fails(graded: Sequence[Graded]) -> bool:
    return any(g.verdict in (Verdict.FAILED, Verdict.BROKEN) for g in graded)


def _is_inconclusive(graded: Sequence[Graded]) -> bool:
    return any(g.verdict == Verdict.INCONCLUSIVE for g in graded)
