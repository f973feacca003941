"""The queue of a reviewer: which sessions to label next, and how many are done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.evaluator.grading.origin import OriginFilter, counts_by_origin, origin_filter
from spangrade.evaluator.view.queries import page_query, query_rows, rows_of
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store

QUEUES = {
    "failed": "failed or broken",
    "disputed": "labelled by you otherwise than the metric or the verdict",
    "sampled": "at random: what `judge agreement` needs",
    "unlabelled": "the newest first",
}
SHOWN = 100


def review_page(store: Store, reviewer: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of `review.html`: the queue that a URL asks for.

    Its parameters are `queue`, `seed`, `origin`, which is production unless it is given, and `among`, the
    names of those who share it. Raises InputError for a queue or an origin that there is not, and if the
    reviewer is not among those.
    """
    return {**_queue(store, reviewer, texts, SHOWN), "queues": QUEUES}


def next_to_review(store: Store, reviewer: str, texts: Mapping[str, str]) -> str | None:
    """Return the session that follows `after` in a queue and is not done; None at its end."""
    waiting = _queue(store, reviewer, texts, 1, texts.get("after") or None)["waiting"]
    return waiting[0]["session_id"] if waiting else None


def names_of_scores(store: Store) -> list[str]:
    """Return what a label may be about: the metrics that were measured, and names of scores given before."""
    return [row["metric"] for row in rows_of(store, "rubrics", limit=SHOWN)]


def _queue(
    store: Store, reviewer: str, texts: Mapping[str, str], limit: int, after: str | None = None
) -> dict[str, Any]:
    kind = texts.get("queue") or "failed"
    if kind not in QUEUES:
        raise InputError(f"queue: {kind[:80]!r}; expected one of {', '.join(QUEUES)}")
    among = [name for one in texts.get("among", "").split(",") if (name := one.strip())]
    if among and reviewer not in among:
        raise InputError(f"among: expected {reviewer} to be one of those who share the queue")
    seed = texts.get("seed") or "0"
    origin = origin_filter(texts.get("origin") or OriginFilter.PRODUCTION)
    rows = query_rows(
        store,
        page_query("review_queue"),
        {
            "kind": kind,
            "author": reviewer,
            "seed": seed,
            "people": max(1, len(among)),
            "share": among.index(reviewer) if among else 0,
            "after": after,
            "origin": origin,
            "limit": limit,
        },
    )
    asked = {"queue": kind, "seed": texts.get("seed", ""), "among": ",".join(among)}
    asked["origin"] = texts.get("origin", "")
    left_out = {} if origin is OriginFilter.ANY else counts_by_origin(store)
    return {
        "left_out_origins": {one: number for one, number in left_out.items() if one != origin},
        "waiting": [row for row in rows if row["session_id"] is not None],
        "queue": kind,
        "among": among,
        "address": {name: value for name, value in asked.items() if value},
        "total": rows[0]["total"],
        "done": rows[0]["done"],
    }
