"""Items in batches of a limited size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def batches(items: Iterable[Item], size_of: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Yield items in their order, in lists of at most this size together, or of one item."""
    batch: list[Item] = []
    size = 0
    for item in items:
        added = size_of(item)
        if batch and size + added > most:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += added
    if batch:
        yield batch
