"""Columns of numbers: numpy's, where it is installed, as it is with scipy; else lists with what is done here.

A comparison of shares is the same with both; tests/evaluator/statistics/comparison/test_columns.py holds them
against each other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, repeat
from typing import Any

from spangrade.tracer.base.installation import is_installed


def columns() -> Any:
    """Return numpy, or else what has the same names here."""
    if not is_installed("numpy"):
        return _Lists
    import numpy

    return numpy


class _Column:
    """A list with the operations of an array of one dimension, value by value."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = list(values)

    def _with(self, function: Callable[[Any, Any], Any], other: Any) -> _Column:
        others = other if isinstance(other, _Column) else repeat(other)
        return _Column(map(function, self._values, others))

    def __add__(self, other: Any) -> _Column:
        return self._with(operator.add, other)

    def __sub__(self, other: Any) -> _Column:
        return self._with(operator.sub, other)

    def __mul__(self, other: Any) -> _Column:
        return self._with(operator.mul, other)

    def __truediv__(self, other: Any) -> _Column:
        return self._with(operator.truediv, other)

    def __pow__(self, other: Any) -> _Column:
        return self._with(operator.pow, other)

    def __and__(self, other: Any) -> _Column:
        return self._with(operator.and_, other)

    def __or__(self, other: Any) -> _Column:
        return self._with(operator.or_, other)

    def __eq__(self, other: object) -> Any:
        return self._with(operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return self._with(operator.ne, other)

    def __lt__(self, other: Any) -> _Column:
        return self._with(operator.lt, other)

    def __gt__(self, other: Any) -> _Column:
        return self._with(operator.gt, other)

    def __ge__(self, other: Any) -> _Column:
        return self._with(operator.ge, other)

    __hash__ = None  # type: ignore[assignment]

    def __invert__(self) -> _Column:
        return _Column(not value for value in self._values)

    def __abs__(self) -> _Column:
        return _Column(map(abs, self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getitem__(self, chosen: Any) -> Any:
        if isinstance(chosen, int):
            return self._values[chosen]
        if isinstance(chosen, slice):
            return _Column(self._values[chosen])
        return _Column(self._values[place] for place in _places(chosen))

    def __setitem__(self, chosen: Any, value: Any) -> None:
        if isinstance(chosen, int):
            self._values[chosen] = value
            return
        places = _places(chosen)
        values = value if isinstance(value, _Column) else [value] * len(places)
        for place, each in zip(places, values, strict=True):
            self._values[place] = each

    def all(self) -> bool:
        return all(self._values)

    def sum(self) -> Any:
        return sum(self._values)

    def max(self) -> Any:
        return max(self._values)

    def tolist(self) -> list[Any]:
        return self._values

    def cumsum(self) -> _Column:
        return _Column(accumulate(self._values))

    def repeat(self, counts: Iterable[int]) -> _Column:
        return _Column(chain.from_iterable(map(repeat, self._values, counts)))

    def clip(self, least: Any) -> _Column:
        return self._with(max, least)

    def argsort(self, kind: str = "stable") -> _Column:  # noqa: ARG002 (Python's sort is stable)
        return _Column(sorted(range(len(self._values)), key=self._values.__getitem__))

    def nonzero(self) -> tuple[_Column]:
        return (_Column(place for place, value in enumerate(self._values) if value),)


def _places(chosen: Sequence[Any]) -> Sequence[int]:
    """Return the places that a column of places, or one that is true at them, chooses."""
    if len(chosen) and isinstance(chosen[0], bool):
        return [place for place, each in enumerate(chosen) if each]
    return chosen


class _Lists:
    """The functions of numpy by which columns are made."""

    @staticmethod
    def asarray(values: Iterable[Any]) -> _Column:
        return _Column(values)

    @staticmethod
    def fromiter(values: Iterable[Any], kind: type, _: int) -> _Column:
        return _Column(map(kind, values))

    @staticmethod
    def zeros(number: int, kind: type) -> _Column:
        return _Column([kind()] * number)

    @staticmethod
    def concatenate(parts: Iterable[_Column]) -> _Column:
        return _Column(chain.from_iterable(parts))

    @staticmethod
    def append(values: _Column, more: Sequence[float]) -> _Column:
        return _Column(chain(values, more))

    @staticmethod
    def insert(values: _Column, places: _Column, value: float) -> _Column:
        """Return the values with another before each of these places, which are in order."""
        found: list[float] = []
        last = 0
        for place in places:
            found += [*values.tolist()[last:place], value]
            last = place
        return _Column([*found, *values.tolist()[last:]])

    @staticmethod
    def bincount(places: _Column, minlength: int) -> _Column:
        found = [0] * minlength
        for place in places:
            found[place] += 1
        return _Column(found)

    @staticmethod
    def where(is_first: _Column, first: _Column, other: float) -> _Column:
        return _Column(value if each else other for each, value in zip(is_first, first, strict=True))

    @staticmethod
    def array_equal(first: _Column, second: _Column) -> bool:
        return first.tolist() == second.tolist()
