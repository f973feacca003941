"""Intervals of time, as (start, end) in nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the disjoint intervals that cover the same time, in order."""
    merged: list[Interval] = []
    for start, end in sorted(i for i in intervals if i[1] > i[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def without(interval: Interval, holes: Sequence[Interval]) -> list[Interval]:
    """Return what is left of an interval without the holes."""
    if not holes:
        return [interval]
    start, end = interval
    left: list[Interval] = []
    for hole_start, hole_end in union(holes):
        if hole_start > start:
            left.append((start, min(hole_start, end)))
        start = max(start, hole_end)
        if start >= end:
            break
    if start < end:
        left.append((start, end))
    return left


def length_s(intervals: Iterable[Interval]) -> float:
    """Return the seconds that intervals cover, what overlaps counted once, to the microsecond."""
    return round(sum(end - start for start, end in union(intervals)) / 1e9, 6)


def seconds(start_ns: int, end_ns: int) -> float:
    """Return the seconds from start to end, to the microsecond."""
    return round((end_ns - start_ns) / 1e9, 6)
