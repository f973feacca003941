"""What grading one session by one metric comes to: a score, inconclusive or a failure, never mixed up."""

from __future__ import annotations

from typing import Any, NamedTuple


class Score(NamedTuple):
    """It could be measured. `passed` is None where no threshold judges the value.

    `evidence` are the ids of the spans that the reason speaks of; `details` is what the value was made of
    (JSON values).
    """

    value: float
    passed: bool | None = None
    reason: str = ""
    evidence: tuple[str, ...] = ()
    details: dict[str, Any] = {}  # noqa: RUF012 (never written to: a score is a value)


class Inconclusive(NamedTuple):
    """The spans or the reference cannot tell.

    `best` is the best value that what *is* known still allows, None where nothing is known: a threshold
    beyond it is missed whatever the rest would have been.
    """

    reason: str
    best: float | None = None


class Failure(NamedTuple):
    """The metric itself broke; `error` says how and where."""

    error: str


Outcome = Score | Inconclusive | Failure
