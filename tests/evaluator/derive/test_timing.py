"""Intervals of time: what is left of one without others."""

from __future__ import annotations

import pytest

from spangrade.evaluator.derive.timing import Interval, without


@pytest.mark.parametrize(
    ("holes", "left"),
    [
        ([], [(0, 10)]),
        ([(2, 4)], [(0, 2), (4, 10)]),
        ([(-3, 2), (8, 12)], [(2, 8)]),
        ([(6, 8), (2, 4), (3, 5)], [(0, 2), (5, 6), (8, 10)]),
        ([(0, 10)], []),
        ([(-1, 12), (15, 20)], []),
        ([(12, 15)], [(0, 10)]),
    ],
)
def test_an_interval_without_others_is_what_none_of_them_covers(
    holes: list[Interval], left: list[Interval]
) -> None:
    assert without((0, 10), holes) == left
