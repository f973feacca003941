"""Verdicts, which of many decides, and the exit codes that they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from spangrade.tracer.base.errors import ExitCode


class Verdict(StrEnum):
    """The verdict on one session. An `UNMATCHED` session answers no question and no gate judges it."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    BROKEN = "broken"
    UNMATCHED = "unmatched"


# The verdict of many results is the first of these that any of them has, and so is the verdict of a run.
PRECEDENCE = (Verdict.BROKEN, Verdict.FAILED, Verdict.INCONCLUSIVE)

EXIT_CODES = {
    Verdict.BROKEN: ExitCode.BROKEN,
    Verdict.FAILED: ExitCode.FAILED,
    Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
}


def exit_code(verdicts: Iterable[Verdict], *, require_match: bool = False) -> ExitCode:
    """Return the exit code of a run with these verdicts: broken, then failed, then inconclusive.

    With `require_match` an unmatched session is inconclusive.
    """
    present = set(verdicts)
    if require_match and Verdict.UNMATCHED in present:
        present.add(Verdict.INCONCLUSIVE)
    return next((EXIT_CODES[verdict] for verdict in PRECEDENCE if verdict in present), ExitCode.PASSED)


def decided_by(graded: ExitCode, compared: ExitCode) -> ExitCode:
    """Return the exit code of a run whose failed sessions are for a comparison to judge."""
    if graded in (ExitCode.PASSED, ExitCode.FAILED):
        return compared
    return compared if (graded, compared) == (ExitCode.INCONCLUSIVE, ExitCode.FAILED) else graded
