"""The questions that flipped between two runs, one line each, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from spangrade.evaluator.reports.tables import VERDICT_STYLES, cell
from spangrade.evaluator.statistics.comparison.compare import Comparison, Flip
from spangrade.evaluator.statistics.comparison.sample import Graded

MAX_LISTED = 20


def flip_lines(comparison: Comparison) -> Text:
    """Return a line for each question that flipped: its id, `passed → failed`, and the reason.

    The broken ones come first. Of several sessions of a question it says how many passed.
    """
    flips = (
        *comparison.broken,
        *comparison.inconclusive_in_second,
        *comparison.fixed,
        *comparison.inconclusive_in_first,
    )
    lines = [_line(flip) for flip in dict.fromkeys(flips)]
    if not lines:
        return Text("no question flipped")
    more = [Text(f"and {len(lines) - MAX_LISTED} more")] if len(lines) > MAX_LISTED else []
    return Text("\n").join([*lines[:MAX_LISTED], *more])


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
