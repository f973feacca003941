"""The values of a metric in two samples, question by question, and which of them are unknown.

A value is unknown if a question was not answered, a session is inconclusive or broken, the metric has no
value there, or the second sample answered a question that expects something else. Of a metric with bounds the
best and the worst case of what is unknown are known all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import and_
from typing import NamedTuple

from spangrade.evaluator.statistics.comparison.sample import Sample, mean

Values = tuple[float, ...]


class OneSide(NamedTuple):
    """One sample's side of questions: the values of the sessions of each, and how many are unknown."""

    values: Sequence[Values]
    unknown: Sequence[int]

    @property
    def are_known(self) -> list[bool]:
        """Whether every session of a question has a value, by question."""
        return [bool(values) and not unknown for values, unknown in zip(*self, strict=True)]

    def filled(self, value: float) -> list[Values]:
        """Return the values of all questions, with this one in place of what is unknown."""
        return [
            (*values, *(value,) * max(unknown, not values)) for values, unknown in zip(*self, strict=True)
        ]


class Pairs(NamedTuple):
    """The questions of the first sample that a metric applies to, with both sides.

    If the samples have no question in common they are two samples: then `of_first` and `of_second` are of
    different questions, else in the same order, which is that of `keys`: questions, or sessions without one.
    """

    of_first: OneSide
    of_second: OneSide
    is_paired: bool
    keys: Sequence[str] = ()

    @property
    def comparable(self) -> int:
        """How many questions are known in full: on both sides if they are paired."""
        if self.is_paired:
            return sum(map(and_, self.of_first.are_known, self.of_second.are_known))
        return sum(self.of_first.are_known) + sum(self.of_second.are_known)

    @property
    def total(self) -> int:
        """How many questions there are."""
        first, second = len(self.of_first.values), len(self.of_second.values)
        return first if self.is_paired else first + second

    def known(self) -> tuple[list[Values], list[Values]]:
        """Return the values that are known, of pairs those with a value on both sides."""
        first, second = self.of_first.values, self.of_second.values
        if self.is_paired:
            pairs = [(a, b) for a, b in zip(first, second, strict=True) if a and b]
            return [a for a, _ in pairs], [b for _, b in pairs]
        return list(filter(None, first)), list(filter(None, second))

    @property
    def flipped(self) -> tuple[Sequence[str], Sequence[str]]:
        """The pairs that broke, and that were fixed, whatever the unknown shares are."""
        lower = zip(self.keys, *self.filled(0.0, 1.0), strict=True) if self.is_paired else ()
        higher = zip(self.keys, *self.filled(1.0, 0.0), strict=True) if self.is_paired else ()
        broken = [key for key, a, b in lower if a != b and mean(b) < mean(a)]
        return broken, [key for key, a, b in higher if a != b and mean(b) > mean(a)]

    @property
    def undecided(self) -> int:
        """How many pairs are not known in full, without those that flipped all the same."""
        known = map(and_, self.of_first.are_known, self.of_second.are_known)
        flipped = {*self.flipped[0], *self.flipped[1]}
        return sum(
            not is_known and key not in flipped for key, is_known in zip(self.keys, known, strict=True)
        )

    def filled(self, in_first: float, in_second: float) -> tuple[list[Values], list[Values]]:
        """Return all questions, with one value in place of all that is unknown on each side."""
        return self.of_first.filled(in_first), self.of_second.filled(in_second)


def pairs_of(
    metric: str,
    first: Sample,
    second: Sample,
    common: Sequence[str],
    incomparable: Collection[str] = (),
    *,
    none: bool = False,
) -> Pairs:
    """Return what two samples know of a metric, of the questions that `common_questions` returns.

    `incomparable` are the questions that expect something else in the second sample: its values are unknown.
    With `none` all its values are.
    """
    sides = [(sample.values.get(metric, {}), sample.unknown.get(metric, {})) for sample in (first, second)]
    if not common:
        before, after = (
            _side(dict.fromkeys([*known, *not_known]), known, not_known) for known, not_known in sides
        )
        return Pairs(before, _unknown(len(after.values)) if none else after, is_paired=False)
    (values, unknown), (values_then, unknown_then) = sides
    keys = [
        key
        for key in common
        if key in values
        or key in unknown
        # It applied to the question in neither, or not in the first.
        or (key not in first.keys_of_graded and (key in values_then or key in unknown_then))
    ]
    if none:
        values_then, unknown_then = {}, {}
    elif incomparable:
        values_then = {key: one for key, one in values_then.items() if key not in incomparable}
        unknown_then = {key: one for key, one in unknown_then.items() if key not in incomparable}
    before, after = _side(keys, values, unknown), _side(keys, values_then, unknown_then)
    return Pairs(before, after, is_paired=True, keys=keys)


def common_questions(first: Sample, second: Sample, *, others: bool = False) -> tuple[str, ...]:
    """Return the questions and sessions of the first sample that are compared in pairs, in order.

    If no question is in both samples, nothing is paired with `others`; without it, all questions of the first
    are, and the second has no value for any of them.
    """
    if not others and are_of_other_questions(first, second):
        return tuple(sorted(first.keys_by_kind[0]))
    return tuple(sorted(_common(first, second)))


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


def _unknown(questions: int) -> OneSide:
    return OneSide([()] * questions, [1] * questions)


def _side(keys: Iterable[str], values: Mapping[str, Values], unknown: Mapping[str, int]) -> OneSide:
    """Return one side of questions; a question without values and unknown ones counts as one unknown."""
    keys = list(keys)
    return OneSide(
        [values.get(key, ()) for key in keys], [unknown.get(key, int(key not in values)) for key in keys]
    )
