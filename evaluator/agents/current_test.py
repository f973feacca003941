"""The test in progress, for the runners in it: its name, its database, and the conversations that it began.

It imports nothing heavy, because the pytest plugin is also loaded in test runs without evals.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(eq=False)
class BegunConversation:
    """A conversation that a test began: the file and line that began it, and whether it ended.

    `calls` are the names of the tools that the agent called so far, each with its arguments as JSON. Of a
    conversation that is stored there is the session's id, the turns that it expects, the reason why it did
    not end as expected, and the spans of the turns that it took.
    """

    place: str
    coroutine: Coroutine[Any, Any, Any] | None = None
    ended: bool = False
    calls: list[tuple[str, str]] = field(default_factory=list)
    session_id: str = ""
    expected: Sequence[Any] = ()
    failure: str | None = None
    turn_spans: list[str] = field(default_factory=list)

    def discard(self) -> None:
        """Close the coroutine if it never started, so that Python does not warn about it as well."""
        if self.coroutine and inspect.getcoroutinestate(self.coroutine) == inspect.CORO_CREATED:
            self.coroutine.close()


@dataclass(eq=False)
class CurrentTest:
    """A test. `find_store` returns the database for the spans of its conversations; None keeps none."""

    name: str
    find_store: Callable[[], Path | None] = lambda: None
    runs: list[BegunConversation] = field(default_factory=list)


_tests: list[CurrentTest] = []


def current_test() -> CurrentTest | None:
    """Return the test in progress in this process, None outside of tests."""
    return _tests[-1] if _tests else None


@contextmanager
def in_test(test: CurrentTest) -> Iterator[CurrentTest]:
    """Make a test the current one, in all threads, until the block ends."""
    _tests.append(test)
    try:
        yield test
    finally:
        _tests.remove(test)
