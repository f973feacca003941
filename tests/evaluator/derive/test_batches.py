"""Items in batches of a limited size."""

from __future__ import annotations

import pytest

from spangrade.evaluator.derive.sync.parts import in_batches


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([9], [[9]]),
        ([1, 2, 2], [[1, 2, 2]]),
        ([3, 3, 2, 4], [[3], [3, 2], [4]]),
        ([2, 8, 2, 3, 1], [[2], [8], [2, 3], [1]]),
        ([0, 5, 0, 1], [[0, 5, 0], [1]]),
    ],
)
def test_a_batch_is_as_large_as_allowed_or_one_item(sizes: list[int], expected: list[list[int]]) -> None:
    assert list(in_batches(sizes, lambda size: size, 5)) == expected
