"""The shares that precision and recall are, with their empty cases."""

from __future__ import annotations


def precision(matched: int, actual: int, expected: int) -> float:
    """`matched / actual`; of nothing, 1 if nothing was expected, else 0."""
    return matched / actual if actual else float(not expected)


def recall(matched: int, expected: int) -> float:
    """`matched / expected`; 1 if nothing was expected."""
    return matched / expected if expected else 1.0
