"""The values of many questions as columns: of 100,000 questions, lists of tuples take ten times as long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from spangrade.evaluator.statistics.comparison.columns import columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

Values = tuple[float, ...]  # of the sessions of one question


class ByQuestion:
    """The values of questions: those of one after those of another, and the number that each has."""

    def __init__(self, values: NDArray[Any], counts: NDArray[Any]) -> None:
        self.values = values
        self.counts = counts

    @classmethod
    def of(cls, given: EachQuestion) -> ByQuestion:
        """Return the values of each question, if they are not columns yet."""
        np = columns()
        if isinstance(given, ByQuestion):
            return given
        counts = np.fromiter(map(len, given), int, len(given))
        return cls(np.fromiter(chain.from_iterable(given), float, counts.sum()), counts)

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def means(self) -> NDArray[Any]:
        """The mean of each question, of which every one has a value, and nearly always only one."""
        if len(self.values) == len(self.counts):
            return self.values
        ends = self.counts.cumsum()
        starts = ends - self.counts
        means: NDArray[Any] = self.values[starts]
        for place in (self.counts > 1).nonzero()[0].tolist():
            means[place] = fmean(self.values[starts[place] : ends[place]].tolist())  # whatever their order
        return means

    def where(self, chosen: NDArray[Any]) -> ByQuestion:
        """Return the questions of which `chosen` is true."""
        return ByQuestion(self.values[chosen.repeat(self.counts)], self.counts[chosen])

    def mapped(self, function: Callable[[NDArray[Any]], NDArray[Any]]) -> ByQuestion:
        """Return the questions with another value in place of each."""
        return ByQuestion(function(self.values), self.counts)

    def filled(self, value: float, missing: NDArray[Any]) -> ByQuestion:
        """Return the questions with as many more of this value as `missing` has of each."""
        np = columns()
        ends = self.counts.cumsum()
        return ByQuestion(np.insert(self.values, ends.repeat(missing), value), self.counts + missing)

    def is_same_as(self, other: ByQuestion) -> bool:
        """Return whether each question has the same values."""
        are_equal = columns().array_equal
        return bool(are_equal(self.counts, other.counts) and are_equal(self.values, other.values))


EachQuestion: TypeAlias = "Sequence[Sequence[float]] | ByQuestion"


class AtPlaces(Mapping[str, Values]):
    """The values of a metric by question: of the sessions at some `places`, in any order, among all sessions.

    `all_keys` are what all sessions are compared by.
    """

    def __init__(self, all_keys: Sequence[str], places: Sequence[int], values: Sequence[float]) -> None:
        self.all_keys = all_keys
        self._places = places
        self._values = values

    @cached_property
    def by_place(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The places in ascending order, and the values there."""
        np = columns()
        places = np.asarray(self._places)
        order = places.argsort()
        return places[order], np.asarray(self._values)[order]

    @cached_property
    def _by_key(self) -> Mapping[str, Values]:
        found: dict[str, Values] = {}
        for place, value in sorted(zip(self._places, self._values, strict=True)):
            key = self.all_keys[place]
            found[key] = (*found.get(key, ()), float(value))
        return found

    def __getitem__(self, key: str) -> Values:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def __bool__(self) -> bool:
        return len(self._places) > 0
