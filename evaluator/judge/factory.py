"""The factory of a test run's judge; it imports no judge, because most test runs need none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_factories: list[Callable[[], Any]] = []


@contextmanager
def judge_from(factory: Callable[[], Any]) -> Iterator[None]:
    """Call this function for the `Judge`, within the block, unless one is passed or in use."""
    _factories.append(factory)
    try:
        yield
    finally:
        _factories.remove(factory)


def judge_factory() -> Callable[[], Any] | None:
    """Return the function of the innermost `judge_from`, None outside of one."""
    return _factories[-1] if _factories else None
