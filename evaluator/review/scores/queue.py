"""Queues of sessions to label: one order and one set for the command, Python and the pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from spangrade.evaluator.metrics.external import LABEL
from spangrade.evaluator.results.origin import OriginFilter, origin_filter
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.review.scores.queues import Queue
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

# The reasons of the view `review_queue` that bring a session there; all sessions are in the others.
_REASONS = {
    Queue.SUGGESTED: ["disagreement", "near a threshold"],
    Queue.FAILED: ["failed"],
    Queue.DISPUTED: ["disputed"],
}
_RANDOM = "random"


class ToReview(NamedTuple):
    """A session without a label, and why it is reviewed.

    `reason` is one of the view `review_queue`, `random`, or "" of a session that has none.
    """

    session_id: str
    reason: str
    details: str = ""


class QueuedSession(NamedTuple):
    """A session that waits in a queue, with the beginning of its first message and when it started."""

    review: ToReview
    first_input: str | None
    start_ns: int | None


class Queued(NamedTuple):
    """The sessions of a queue, in its order; of `total` sessions `done` are labelled."""

    waiting: Sequence[QueuedSession]
    total: int
    done: int


def queued(
    store: Store,
    queue: str,
    reviewer: str | None,
    *,
    name: str = LABEL,
    seed: str = "0",
    origin: str = OriginFilter.PRODUCTION,
    among: Sequence[str] = (),
    after: str | None = None,
    limit: int | None = None,
    only: Collection[str] | None = None,
) -> Queued:
    """Return the sessions of a queue that a person, or with None anybody, has not given a label of a name.

    With `only` they are among the sessions of these ids.

    `seed` shuffles sessions at random; each of those `among` whom the queue is shared out has a share. With
    `after` only sessions that follow this one are listed. Raises InputError for a queue or an origin that
    there is not, and if the reviewer is not among those.
    """
    try:
        kind = Queue(queue)
    except ValueError:
        raise FieldError("queue", f"expected one of {', '.join(Queue)}", repr(queue[:80])) from None
    if among and reviewer not in among:
        raise InputError(f"among: expected {reviewer} to be one of those who share the queue")
    reasons = _REASONS.get(kind, [])
    text = statement("queue", "spangrade.evaluator.review.scores")
    rows = store.query(
        with_views(text.replace("{reasons}", f"{reasons}")),
        {
            "every": kind not in (Queue.FAILED, Queue.DISPUTED),
            "shuffled": kind in (Queue.SUGGESTED, Queue.SAMPLED),
            "done_by_label": kind is not Queue.DISPUTED,
            "author": reviewer,
            "name": name,
            "seed": seed,
            "origin": origin_filter(origin),
            "people": max(1, len(among)),
            "share": among.index(reviewer) if among and reviewer else 0,
            "after": after,
            "limit": limit,
            "only": None if only is None else list(only),
        },
    )
    usual = _RANDOM if kind in (Queue.SUGGESTED, Queue.SAMPLED) else ""
    waiting = [
        QueuedSession(ToReview(session_id, reason or usual, details or ""), first_input, start_ns)
        for session_id, first_input, start_ns, reason, details, *_ in rows
        if session_id is not None
    ]
    return Queued(waiting, *rows[0][-2:])
