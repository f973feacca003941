"""The judge in use: of a grading run, a test run, a block. It imports no judge: most test runs need none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_factory: ContextVar[Callable[[], Any] | None] = ContextVar("spangrade_judge", default=None)


@contextmanager
def judge_from(factory: Callable[[], Any]) -> Iterator[None]:
    """Call this function for the `Judge`, within the block, unless one is passed.

    It holds in this context: in its tasks, not in threads that it starts.
    """
    token = _factory.set(factory)
    try:
        yield
    finally:
        _factory.reset(token)


def judge_in_use() -> Any:
    """Return the judge of the innermost `judge_from`, None outside of one."""
    factory = _factory.get()
    return factory and factory()
