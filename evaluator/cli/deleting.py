"""`spangrade delete`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from spangrade.evaluator.cli.opening import WAIT_S
from spangrade.evaluator.cli.output import print_json
from spangrade.evaluator.maintenance.delete import delete
from spangrade.tracer.errors import InputError

AGE = re.compile(r"(\d{1,6})([mhdw])")
_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def run(
    db: Path, sessions: Sequence[str], before: str | None, user: str | None, *, dry_run: bool, as_json: bool
) -> None:
    """Delete sessions and say what came of it."""
    if not sessions and before is None and user is None:
        raise InputError("delete what? Give --session, --before or --user")
    deleted = delete(
        db,
        sessions=sessions,
        before_ns=None if before is None else moment_ns(before),
        user=user,
        dry_run=dry_run,
        wait_s=WAIT_S,
    )
    if as_json:
        print_json(deleted._asdict())
        return
    what = f"{deleted.sessions} sessions: {deleted.spans} spans and {deleted.logs} logs"
    if dry_run:
        print(f"{what} would be deleted from {db}")
    else:
        print(f"{what} deleted from {db}, which is {deleted.bytes_saved / 1e6:.1f} MB smaller")


def moment_ns(text: str) -> int:
    """Return a time in ns since the epoch: an ISO date or time (UTC unless it says), or an age such as 30d.

    Raises InputError for anything else.
    """
    if found := AGE.fullmatch(text):
        return time.time_ns() - int(found[1]) * _UNITS_S[found[2]] * 10**9
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp()) * 10**9
    except (ValueError, OverflowError):
        raise InputError(f"{text!r} is no time: write 2026-01-31, 2026-01-31T12:00Z or 30d") from None
