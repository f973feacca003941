"""A made example of agreement, and its columns as libraries want them."""

from __future__ import annotations

from spangrade.evaluator.statistics.agreement.agreement import Judged, Label
from spangrade.evaluator.statistics.agreement.statistics import Confusion

# Of 50 labelled sessions people passed 30 and the judge 25; of 50 others the judge passed 40.
MADE = Confusion(pass_pass=20, pass_fail=5, fail_pass=10, fail_fail=15)
OTHERS, OTHERS_PASSED = 50, 40


def pairs(confusion: Confusion) -> list[tuple[bool, bool]]:
    """Return whether the judge, and whether people, passed each session that is counted."""
    cells = ((True, True), (True, False), (False, True), (False, False))
    return [pair for pair, count in zip(cells, confusion, strict=True) for _ in range(count)]


def made_sessions() -> tuple[list[Judged], list[Label]]:
    """Return the judge's verdicts and the labels of one person, ann, of the made example."""
    listed = pairs(MADE)
    judged = [Judged(f"labelled-{n:02}", judge) for n, (judge, _) in enumerate(listed)]
    judged += [Judged(f"other-{n:02}", n < OTHERS_PASSED) for n in range(OTHERS)]
    labels = [Label(f"labelled-{n:02}", "ann", people) for n, (_, people) in enumerate(listed)]
    return judged, labels
