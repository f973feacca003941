"""Records of a file, and the problems of those that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from spangrade.tracer.span import Problem

T = TypeVar("T")


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
