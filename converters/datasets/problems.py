"""Records of a file, and the problems of those that cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from spangrade.tracer.span import Problem

T = TypeVar("T")


def condensed(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems, in which equal messages of problems that drop nothing are counted as one."""
    kept: list[Problem] = []
    places: dict[str, int] = {}
    more: Counter[int] = Counter()
    for problem in problems:
        place = len(kept) if problem.dropped else places.setdefault(problem.message, len(kept))
        if place == len(kept):
            kept.append(problem)
        else:
            more[place] += 1
    for place, number in more.items():
        kept[place] = kept[place]._replace(message=f"{kept[place].message} (and {number} more)")
    return kept


def separate(records: Iterable[T | Problem]) -> tuple[list[T], list[Problem]]:
    """Return the records that can be used, and the problems of the others."""
    usable: list[T] = []
    problems: list[Problem] = []
    for record in records:
        if isinstance(record, Problem):
            problems.append(record)
        else:
            usable.append(record)
    return usable, problems
