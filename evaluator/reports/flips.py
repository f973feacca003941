"""The questions that flipped between two runs, one line each, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from spangrade.evaluator.reports.changed_lines import differing, stored_sessions
from spangrade.evaluator.reports.tables import VERDICT_STYLES, cell
from spangrade.evaluator.session import Session
from spangrade.tracer.store.store import Stored

if TYPE_CHECKING:
    from spangrade.evaluator.statistics.comparison.compare import Comparison, Flip
    from spangrade.evaluator.statistics.comparison.graded import Graded

MAX_LISTED = 20
MAX_WHOLE = 6  # questions that flipped: the lines that changed are shown of no more
MAX_LINES = 12  # of these of a question


def flips_of(comparison: Comparison) -> list[Flip]:
    """Return the questions that flipped, those that regressed first."""
    flips = (
        *comparison.regressed,
        *comparison.inconclusive_in_second,
        *comparison.fixed,
        *comparison.inconclusive_in_first,
    )
    return list(dict.fromkeys(flips))


def sessions_of(flip: Flip) -> tuple[str, str]:
    """Return the ids of a session before and of one after, which show the flip: one passes, if any does."""
    before, after = (
        next((one for one in side if (one.verdict == "passed") is passes), side[0])
        for side, passes in (
            (flip.first, any(one.verdict == "passed" for one in flip.first)),
            (flip.second, all(one.verdict == "passed" for one in flip.second)),
        )
    )
    return before.session_id, after.session_id


def flip_lines(flips: Sequence[Flip], stored: Stored) -> Text:
    """Return a line for each question that flipped: its id, `passed → failed`, and the reason.

    If a question has several sessions, it says how many passed. Unless too many flipped, the lines that
    changed follow: what was called and said before, and now. The sessions of a run that is read from a file
    may not be stored.
    """
    lines = []
    ids = [one for flip in flips for one in sessions_of(flip)] if len(flips) <= MAX_WHOLE else []
    sessions = stored_sessions(ids, stored) if ids else {}
    for flip in flips[:MAX_LISTED]:
        lines.append(_line(flip))
        before, after = map(sessions.get, sessions_of(flip))
        lines += _changed_lines(before, after) if before and after else []
    if len(flips) > MAX_LISTED:
        lines.append(Text(f"and {len(flips) - MAX_LISTED} more"))
    return Text("\n").join(lines) if lines else Text("no question flipped")


def _line(flip: Flip) -> Text:
    before, after = _verdict(flip.first), _verdict(flip.second)
    text = Text.assemble(cell(flip.key, newline=" "), "  ", before, " → ", after)
    if after.plain != "passed" and flip.reason:
        text.append("  ").append_text(cell(flip.reason, newline=" "))
    return text


def _verdict(sessions: Sequence[Graded]) -> Text:
    if len(sessions) == 1:
        return Text(sessions[0].verdict, VERDICT_STYLES[sessions[0].verdict])
    passed = sum(one.verdict == "passed" for one in sessions)
    style = "passed" if passed == len(sessions) else "failed"
    return Text(f"{passed} of {len(sessions)} passed", VERDICT_STYLES[style])


def _changed_lines(before: Session, after: Session) -> list[Text]:
    """Return what differs between two sessions: `-` is the first's alone, `+` the second's."""
    found = differing(before, after, context=1)
    lines = [cell(f"  {line}", newline=" ") for line in found[:MAX_LINES]]
    for line in lines:
        line.stylize({"-": "red", "+": "green"}.get(line.plain[2], ""))
    more = [Text(f"  and {len(found) - MAX_LINES} more lines")] if len(found) > MAX_LINES else []
    return [*lines, *more]
