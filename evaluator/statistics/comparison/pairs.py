"""What two samples know of a metric, question by question, and what they do not.

A value is unknown if a question was not answered, a session is inconclusive or broken, the metric has no
value there, or the second sample answered a question that expects something else. Of a metric with bounds the
best and the worst case of what is unknown are known all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from spangrade.evaluator.statistics.comparison.sample import Sample

Values = tuple[float, ...]


class OneSide(NamedTuple):
    """The values of a question's sessions in one sample, and how many of them are `unknown`."""

    values: Values = ()
    unknown: int = 0

    @property
    def is_known(self) -> bool:
        """Whether every session of it has a value."""
        return bool(self.values) and not self.unknown

    def filled(self, value: float) -> Values:
        """Return the values, with this one in place of what is unknown."""
        return (*self.values, *(value,) * max(self.unknown, not self.values))


class Pairs(NamedTuple):
    """The questions of the first sample that a metric applies to, each with both sides.

    If the samples have no question in common they are two samples: then `of_first` and `of_second` are of
    different questions, else in the same order.
    """

    of_first: tuple[OneSide, ...]
    of_second: tuple[OneSide, ...]
    is_paired: bool

    @property
    def comparable(self) -> int:
        """How many questions are known in full: on both sides if they are paired."""
        if self.is_paired:
            return sum(a.is_known and b.is_known for a, b in zip(*self[:2], strict=True))
        return sum(side.is_known for side in (*self.of_first, *self.of_second))

    @property
    def total(self) -> int:
        """How many questions there are."""
        return len(self.of_first) if self.is_paired else len(self.of_first) + len(self.of_second)

    def known(self) -> tuple[list[Values], list[Values]]:
        """Return the values that are known, of pairs those with a value on both sides."""
        if self.is_paired:
            pairs = [(a.values, b.values) for a, b in zip(*self[:2], strict=True) if a.values and b.values]
            return [a for a, _ in pairs], [b for _, b in pairs]
        first, second = ([side.values for side in sides if side.values] for sides in self[:2])
        return first, second

    def filled(self, in_first: float, in_second: float) -> tuple[list[Values], list[Values]]:
        """Return all questions, with one value in place of all that is unknown on each side."""
        return [one.filled(in_first) for one in self.of_first], [
            one.filled(in_second) for one in self.of_second
        ]


def pairs_of(
    metric: str,
    first: Sample,
    second: Sample,
    incomparable: Collection[str] = (),
    *,
    none: bool = False,
    others: bool = False,
) -> Pairs:
    """Return what two samples know of a metric.

    `incomparable` are the questions that expect something else in the second sample: its values are unknown.
    With `none` all its values are. Samples of other questions are two samples only with `others`; else the
    second has no value of any question of the first.
    """
    sides = [_sides(metric, sample) for sample in (first, second)]
    common = _common(first, second)
    if not others and are_of_other_questions(first, second):
        common = first.keys_by_kind[0]
    if not common:
        unknown = [(OneSide(unknown=1) if none else side) for side in sides[1].values()]
        return Pairs(tuple(sides[0].values()), tuple(unknown), is_paired=False)
    found = []
    for key in sorted(common):
        before, after = sides[0].get(key), sides[1].get(key)
        if before is None:
            if after is None or key in first.keys_of_graded:
                continue  # it applied to the question in neither, or not in the first
            before = OneSide(unknown=1)
        if after is None or none or key in incomparable:
            after = OneSide(unknown=1)
        found.append((before, after))
    return Pairs(tuple(a for a, _ in found), tuple(b for _, b in found), is_paired=True)


def are_of_other_questions(first: Sample, second: Sample) -> bool:
    """Return whether both answer golden questions, none of them in both, and not both have other sessions."""
    questions, sessions = zip(first.keys_by_kind, second.keys_by_kind, strict=True)
    return all(questions) and not questions[0] & questions[1] and not all(sessions)


def _common(first: Sample, second: Sample) -> frozenset[str]:
    """Return the questions of the first sample if the second has any, and likewise sessions without one.

    Sessions without a question of which none are in both are of different conversations: they have no pair.
    """
    of_first, of_second = first.keys_by_kind, second.keys_by_kind
    return frozenset().union(*(a for a, b in zip(of_first, of_second, strict=True) if a & b))


def _sides(metric: str, sample: Sample) -> Mapping[str, OneSide]:
    values, unknown = sample.values.get(metric, {}), sample.unknown.get(metric, {})
    return {
        key: OneSide(values.get(key, ()), unknown.get(key, 0)) for key in dict.fromkeys([*values, *unknown])
    }
