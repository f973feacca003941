"""The values of a metric in two samples, question by question, and which of them are unknown.

A value is unknown if a question was not answered, a session is inconclusive or broken, the metric has no
value there, or the second sample answered a question that expects something else. If a metric has bounds, the
best and the worst case of what is unknown are known all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from spangrade.evaluator.statistics.comparison.by_question import AtPlaces, ByQuestion, Values
from spangrade.evaluator.statistics.comparison.columns import columns
from spangrade.evaluator.statistics.comparison.sample import Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray


class OneSide(NamedTuple):
    """One sample's side of questions: the values of the sessions of each, and how many are unknown."""

    values: ByQuestion
    unknown: NDArray[Any]

    @property
    def are_known(self) -> NDArray[Any]:
        """Whether every session of a question has a value, by question."""
        known: NDArray[Any] = (self.values.counts > 0) & (self.unknown == 0)
        return known

    def where(self, chosen: NDArray[Any]) -> OneSide:
        """Return the questions of which `chosen` is true."""
        return OneSide(self.values.where(chosen), self.unknown[chosen])

    def without(self, chosen: NDArray[Any]) -> OneSide:
        """Return all questions, of which those that are chosen are unknown."""
        values, counts = self.values.values, self.values.counts
        kept = ByQuestion(values[~chosen.repeat(counts)], counts * ~chosen)
        return OneSide(kept, self.unknown * ~chosen + chosen)

    def filled(self, value: float) -> ByQuestion:
        """Return the values of all questions, with this one in place of what is unknown."""
        return self.values.filled(value, self.unknown.clip(self.values.counts == 0))


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
        first, second = self.of_first.are_known, self.of_second.are_known
        return int((first & second).sum() if self.is_paired else first.sum() + second.sum())

    @property
    def total(self) -> int:
        """How many questions there are."""
        first, second = len(self.of_first.values), len(self.of_second.values)
        return first if self.is_paired else first + second

    def known(self) -> tuple[ByQuestion, ByQuestion]:
        """Return the values that are known, of pairs those with a value on both sides."""
        first, second = self.of_first.values, self.of_second.values
        of_first, of_second = first.counts > 0, second.counts > 0
        if self.is_paired:
            of_first = of_second = of_first & of_second
        return first.where(of_first), second.where(of_second)

    @property
    def flipped(self) -> tuple[Sequence[str], Sequence[str]]:
        """The pairs that regressed, and that were fixed, whatever the unknown shares are."""
        regressed, fixed = (list(compress(self.keys, each.tolist())) for each in self._flips())
        return regressed, fixed

    @property
    def undecided(self) -> int:
        """How many pairs are not known in full, without those that flipped all the same."""
        if not self.is_paired:
            return 0
        regressed, fixed = self._flips()
        return int((~(self.of_first.are_known & self.of_second.are_known | regressed | fixed)).sum())

    def filled(self, in_first: float, in_second: float) -> tuple[ByQuestion, ByQuestion]:
        """Return all questions, with one value in place of all that is unknown on each side."""
        return self.of_first.filled(in_first), self.of_second.filled(in_second)

    def worse(self, in_first: float, in_second: float) -> NDArray[Any]:
        """Return which pairs are lower in the second sample, with these values for what is unknown."""
        first, second = self.filled(in_first, in_second)
        return second.means < first.means

    def _flips(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return which pairs broke, and which were fixed."""
        np = columns()
        if not self.is_paired:
            return np.zeros(0, bool), np.zeros(0, bool)
        first, second = self.filled(1.0, 0.0)
        return self.worse(0.0, 1.0), second.means > first.means


class Common:
    """The questions and sessions of the first sample that are compared one by one, in their order.

    `answered` are those that a session of the first sample answers.
    """

    def __init__(self, keys: Sequence[str], answered: Collection[str] = ()) -> None:
        self.keys = keys
        self._answered = answered
        self._places = {key: place for place, key in enumerate(keys)}
        # Of all sessions of a sample: they are the same for all of its metrics.
        self._of_all: dict[int, tuple[Sequence[str], NDArray[Any]]] = {}

    def places(self, keys: Collection[str]) -> NDArray[Any]:
        """Return the place of each key, -1 of one that is not compared."""
        found = (self._places.get(key, -1) for key in keys)
        places: NDArray[Any] = columns().fromiter(found, int, len(keys))
        return places

    @cached_property
    def is_unanswered(self) -> NDArray[Any]:
        """Which of the questions no session of the first sample answers."""
        return ~self.has(self._answered)

    def has(self, keys: Collection[str]) -> NDArray[Any]:
        """Return which of the questions are among these."""
        found: NDArray[Any] = columns().zeros(len(self.keys), bool)
        found[self.places([key for key in keys if key in self._places])] = True
        return found

    def side(self, values: Mapping[str, Values], unknown: Mapping[str, int]) -> tuple[OneSide, NDArray[Any]]:
        """Return one side of the questions, and to which of them the metric applies.

        A question without values and unknown ones counts as one unknown.
        """
        np = columns()
        number = len(self.keys)
        places, found = self._located(values)
        is_common = places >= 0
        places, found = places[is_common], found[is_common]
        order = places.argsort(kind="stable")
        counts = np.bincount(places, minlength=number)
        not_known = np.zeros(number, int)
        places = self.places(unknown)
        not_known[places[places >= 0]] = np.fromiter(unknown.values(), int, len(unknown))[places >= 0]
        applies = (counts > 0) | (not_known > 0)
        return OneSide(ByQuestion(found[order], counts), np.where(applies, not_known, 1)), applies

    def _located(self, values: Mapping[str, Values]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the place of each value among the questions, and the values."""
        if not isinstance(values, AtPlaces):
            each = ByQuestion.of(list(values.values()))
            return self.places(values).repeat(each.counts), each.values
        if id(values.all_keys) not in self._of_all:
            self._of_all[id(values.all_keys)] = values.all_keys, self.places(values.all_keys)
        places, found = values.by_place
        return self._of_all[id(values.all_keys)][1][places], found


def pairs_of(
    metric: str,
    first: Sample,
    second: Sample,
    common: Common,
    incomparable: Collection[str] = (),
    *,
    none: bool = False,
) -> Pairs:
    """Return what two samples know of a metric, of the questions that `common_questions` returns.

    `incomparable` are the questions that expect something else in the second sample: its values are unknown.
    With `none` all its values are.
    """
    sides = [(sample.values.get(metric, {}), sample.unknown.get(metric, {})) for sample in (first, second)]
    if not common.keys:
        before, after = (
            Common([*dict.fromkeys([*known, *not_known])]).side(known, not_known)[0]
            for known, not_known in sides
        )
        return Pairs(before, after.without(after.unknown >= 0) if none else after, is_paired=False)
    (before, applies), (after, applies_then) = (common.side(*side) for side in sides)
    # It applied to the question in neither, or not in the first.
    applies |= applies_then & common.is_unanswered
    if none or incomparable:
        after = after.without(applies if none else common.has(incomparable))
    keys = list(compress(common.keys, applies.tolist()))
    return Pairs(before.where(applies), after.where(applies), is_paired=True, keys=keys)


def common_questions(first: Sample, second: Sample, *, others: bool = False) -> Common:
    """Return the questions and sessions of the first sample that are compared in pairs, in order.

    If no question is in both samples, nothing is paired with `others`; without it, all questions of the first
    are, and the second has no value for any of them.
    """
    is_apart = not others and are_of_other_questions(first, second)
    return Common(sorted(first.keys_by_kind[0] if is_apart else _common(first, second)), first.keys_of_graded)


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
