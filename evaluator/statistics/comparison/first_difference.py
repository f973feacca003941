"""Where the trajectories of sessions differ first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

THE_END = "the end"


class FirstDifference(NamedTuple):
    """The first step, from 1, at which not all paths are the same, and what each of them has there."""

    step: int
    names: tuple[str, ...]


def where_paths_differ(paths: Sequence[Sequence[str]]) -> FirstDifference | None:
    """Return where paths differ first, None if they do not. A path that is over has `the end` there."""
    for step in range(max(map(len, paths), default=0)):
        names = tuple(path[step] if step < len(path) else THE_END for path in paths)
        if len(set(names)) > 1:
            return FirstDifference(step + 1, names)
    return None
