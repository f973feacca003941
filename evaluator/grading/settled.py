"""The result of a run that was stopped once it was settled against an earlier one."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.terminal import counted


class Settlement(StrEnum):
    """The result that holds after some of the questions, whatever the others will show."""

    WORSE = "worse"
    NO_LOSS = "no loss can be shown any more"
    OPEN = "not settled"


class Settled(NamedTuple):
    """The result of a run that was stopped when it was settled against its `baseline`.

    `asked` of the `questions` were counted till then. `unasked` are those that were left out for it.
    """

    run_id: str
    baseline: str
    outcome: Settlement
    asked: int
    questions: int
    broken: int
    fixed: int
    unasked: frozenset[str]

    def __str__(self) -> str:
        """Return it in one line: `settled after 66 of 400 questions: worse (14 broke, 2 fixed)`."""
        flips = f"({self.broken} broke, {self.fixed} fixed)"
        if self.outcome is Settlement.OPEN:
            return f"{self.outcome} after all {counted(self.questions, 'question')} {flips}"
        return f"settled after {self.asked} of {counted(self.questions, 'question')}: {self.outcome} {flips}"

    @property
    def is_stopped(self) -> bool:
        """Whether questions may have been left out."""
        return self.outcome is not Settlement.OPEN

    @property
    def exit_code(self) -> ExitCode:
        """1 if it is worse, 4 if more broke than were fixed and that does not show it, else 0."""
        if self.outcome is Settlement.WORSE:
            return ExitCode.FAILED
        return ExitCode.INCONCLUSIVE if self.broken > self.fixed else ExitCode.PASSED

    def to_json(self) -> dict[str, Any]:
        """Return it as the JSON values of results.json."""
        return {
            "baseline": self.run_id,
            "outcome": self.outcome.value,
            "asked": self.asked,
            "questions": self.questions,
            "broken": self.broken,
            "fixed": self.fixed,
        }
