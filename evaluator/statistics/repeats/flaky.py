"""Questions of which some sessions pass and some do not, and the step at which those part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spangrade.evaluator.statistics.comparison.graded import where_paths_differ

_MAX_NAME = 80  # characters of a call with its arguments, in a line


class Try(NamedTuple):
    """One session of a question: whether it passed, and if not, why.

    `path` has the names of its steps, `calls` those of its tool calls with their arguments; each is None if
    it is not known.
    """

    passed: bool
    reason: str
    path: tuple[str, ...] | None
    calls: tuple[str, ...] | None


class Branch(NamedTuple):
    """A step that sessions take, the number of these sessions, and how many of them passed."""

    name: str
    sessions: int
    passed: int


class Flaky(NamedTuple):
    """A question of which some sessions pass and some do not.

    `part_at` says what `branches` are at the number `step`: a `step` of the trajectories or, where these have
    the same names, a `call` of a tool with its arguments. It is empty, and `step` None, if neither differs or
    is known. `reason` is that of a session that did not pass.
    """

    question: str
    sessions: int
    passed: int
    part_at: str
    step: int | None
    branches: tuple[Branch, ...]
    reason: str

    @property
    def where(self) -> str:
        """Where the sessions part: `step 3: refund (4 of 4 passed), the end (0 of 2 passed)`."""
        if self.step is None:
            return ""
        shown = (
            f"{one.name if len(one.name) <= _MAX_NAME else one.name[: _MAX_NAME - 1] + '…'} "
            f"({one.passed} of {one.sessions} passed)"
            for one in self.branches
        )
        return f"{self.part_at} {self.step}: {', '.join(shown)}"


def flaky(question: str, tries: Sequence[Try]) -> Flaky | None:
    """Return a question as flaky; None unless some of its sessions passed and some did not."""
    passed = sum(one.passed for one in tries)
    if not 0 < passed < len(tries):
        return None
    reason = next(one.reason for one in tries if not one.passed)
    for part_at in ("step", "call"):
        paths = ((one, one.path if part_at == "step" else one.calls) for one in tries)
        known = [(one, path) for one, path in paths if path is not None]
        parted = where_paths_differ([path for _, path in known])
        if parted is not None:
            branches: dict[str, Branch] = {}
            for (one, _), name in zip(known, parted.names, strict=True):
                before = branches.get(name, Branch(name, 0, 0))
                branches[name] = Branch(name, before.sessions + 1, before.passed + one.passed)
            ordered = sorted(branches.values(), key=lambda one: (-one.passed, -one.sessions, one.name))
            return Flaky(question, len(tries), passed, part_at, parted.step, tuple(ordered), reason)
    return Flaky(question, len(tries), passed, "", None, (), reason)
