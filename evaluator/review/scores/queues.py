"""The queues of sessions to label."""

from __future__ import annotations

from enum import StrEnum


class Queue(StrEnum):
    """A queue of sessions to label."""

    SUGGESTED = "suggested"
    FAILED = "failed"
    DISPUTED = "disputed"
    SAMPLED = "sampled"
    UNLABELLED = "unlabelled"


USUAL = Queue.SUGGESTED  # that of the command, of Python and of the pages where none is named

ABOUT = {
    Queue.SUGGESTED: "where gates disagree, then near a threshold, then others at random",
    Queue.FAILED: "failed or broken",
    Queue.DISPUTED: "labelled by you otherwise than the metric or the verdict",
    Queue.SAMPLED: "at random: what `judge agreement` needs",
    Queue.UNLABELLED: "the newest first",
}
